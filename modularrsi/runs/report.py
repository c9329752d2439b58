"""What a run came to. Unscored rollouts are shown, never averaged in; an unknown cost stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from modularrsi.gateway.settings import SIMULATED
from modularrsi.rollout.result import RolloutResult
from modularrsi.runs.state import RunState


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task of a run: the rewards of its attempts in order (None = unscored or not run), and its group's kind."""

    task: str
    rewards: tuple[float | None, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Report:
    """Totals of a run. `mean_reward` is over scored rollouts (None when there is none); `worst_case` counts every
    unscored one as 0, so the truth lies between the two. Tokens and cost are None as soon as one part is unknown.
    `stopped` says why the run that has just ended is not complete. `simulated`: the simulated model played, so the
    numbers are a measurement of the harness under it, and say nothing about any other model."""

    run: str
    complete: bool
    planned: int
    scored: int
    unscored: int
    passed: int
    mean_reward: float | None
    worst_case: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    tasks: tuple[TaskRow, ...]
    rollouts: tuple[Mapping[str, Any], ...]
    stopped: str = ""
    simulated: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(run: str, state: RunState, stopped: str = "") -> Report:
    """The report of a run as far as it has come."""
    results = [state.finished[name].result for name in state.planned if name in state.finished]
    rewards = [result.reward for result in results if result.reward is not None]
    return Report(
        run=run,
        complete=state.complete,
        planned=len(state.planned),
        scored=len(rewards),
        unscored=len(results) - len(rewards),
        passed=sum(reward >= 1.0 for reward in rewards),
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        worst_case=sum(rewards) / len(results) if results else None,
        prompt_tokens=_total(results, "prompt_tokens"),
        completion_tokens=_total(results, "completion_tokens"),
        cost_usd=_total(results, "cost_usd"),
        tasks=tuple(_rows(state)),
        rollouts=tuple(_brief(result) for result in results),
        stopped=stopped,
        simulated=is_simulated(state),
    )


def is_simulated(state: RunState | None) -> bool:
    """Whether any model of the run is the product's simulator; its name tells."""
    models: Mapping[str, Any] = state.contract.get("models", {}) if state else {}
    return any(str(settings.get("model", "")).startswith(SIMULATED) for settings in models.values())


def group_kind(rewards: Iterable[float | None]) -> str:
    """positive: all pass; negative: all fail; contrastive: both; unscored: nothing is known."""
    passes = [reward >= 1.0 for reward in rewards if reward is not None]
    if not passes:
        return "unscored"
    if all(passes):
        return "positive"
    return "contrastive" if any(passes) else "negative"


def _rows(state: RunState) -> Iterable[TaskRow]:
    by_task: dict[str, list[float | None]] = {}
    for name in state.planned:
        done = state.finished.get(name)
        by_task.setdefault(name.rpartition("/")[0], []).append(done.result.reward if done else None)
    for task, rewards in by_task.items():
        yield TaskRow(task, tuple(rewards), group_kind(rewards))


def _total(results: Iterable[RolloutResult], key: str) -> Any:
    """The sum over all steps; None when any part is unknown, and when no model was asked."""
    asked = [step.usage for result in results for step in result.steps if step.usage.get("calls", 1) and step.usage]
    parts = [usage.get(key) for usage in asked]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _brief(result: RolloutResult) -> dict[str, Any]:
    last = result.steps[-1] if result.steps else None
    turns = [step.turns for step in result.steps if step.turns is not None]
    return {
        "id": result.id,
        "reward": result.reward,
        "ending": last.ending if last else None,
        "failure": asdict(result.failure) if result.failure else None,
        "turns": sum(turns) if turns else None,
        "seconds": round(sum(result.seconds.values()), 3),
    }
