"""Checking a run, finished or not, from its own evidence: the chain, every blob, every reward from its steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modularrsi.digest import digest_value
from modularrsi.errors import UserError
from modularrsi.runs.folder import read_state
from modularrsi.runs.state import RunState
from modularrsi.store import Problem, RunReader


def audit(run: Path) -> list[Problem]:
    """All that does not agree; empty = everything does. Raises UserError when there is no run."""
    if not (run / "events.jsonl").is_file():
        raise UserError(f"{run} holds no run (there is no events.jsonl in it)")
    problems = RunReader(run).verify()
    if any(problem.where.startswith("events.jsonl") for problem in problems):
        return problems
    state = read_state(run)
    return problems if state is None else [*problems, *_contract(state), *_results(state)]


def _contract(state: RunState) -> Iterator[Problem]:
    if state.contract and digest_value(state.contract) != state.contract_digest:
        yield Problem("run.created", "the contract does not have the digest that is recorded for it")
    for name in state.finished.keys() - set(state.planned):
        yield Problem(name, "finished, but never planned")


def _results(state: RunState) -> Iterator[Problem]:
    """A reward must follow from the steps' own, and an unscored rollout must say why."""
    for name, done in state.finished.items():
        result = done.result
        rewards = [step.reward for step in result.steps]
        if result.reward is not None and (not rewards or None in rewards):
            yield Problem(name, "has a reward although a step is unscored or missing")
        elif result.reward is not None and not _possible(result.reward, [r for r in rewards if r is not None]):
            yield Problem(name, f"the reward {result.reward:g} does not follow from its steps' {rewards}")
        if result.reward is None and result.failure is None:
            yield Problem(name, "is unscored and does not say why")


def _possible(reward: float, steps: list[float]) -> bool:
    """The last step's reward, or a mean in which steps that were never reached count 0."""
    total = sum(steps)
    means = [total / count for count in range(len(steps), len(steps) + 100)]
    return any(abs(reward - one) < 1e-9 for one in (steps[-1], 0.0, *means))
