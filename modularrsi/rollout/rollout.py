"""The life of one rollout: start → (act → verify) for each step → stop.

The order is the protection: tests go in only after the agent of that step is dead, and whatever fails on the way is
turned into a `Failure` with an owner here, so that no fault of ours can look like a zero.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from modularrsi.agents.base import Agent, AgentEnd, Assignment
from modularrsi.errors import Failure, SandboxError
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.rollout.result import RolloutResult, StepResult, overall
from modularrsi.rollout.steps import Step, prepare_step, steps_of
from modularrsi.sandbox.base import Sandbox, SandboxSpec
from modularrsi.verifier.protect import Protected
from modularrsi.verifier.reward import Reward
from modularrsi.verifier.verify import Judging, Verdict, clear_tests, verify

DEFAULT_AGENT_SEC = 6 * 3_600.0
"""For tasks that set no limit: a harness that types and never asks its model would otherwise go on for ever."""

MakeSandbox = Callable[[SandboxSpec], Sandbox]
Phase = Callable[[str], None]


@dataclass(slots=True)
class _Record:
    """What is known of a rollout so far."""

    steps: list[StepResult] = field(default_factory=list[StepResult])
    trajectories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    stop_run: bool = False

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.monotonic() - began


async def run_rollout(
    plan: RolloutPlan, agent: Agent, make_sandbox: MakeSandbox, on_phase: Phase = lambda _: None
) -> tuple[RolloutResult, list[dict[str, Any]]]:
    """Run it to the end; the result and the trajectories of its steps. Raises only when cancelled, and StoreError."""
    record = _Record()
    sandbox = make_sandbox(plan.sandbox_spec())
    try:
        on_phase("starting")
        plan.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with record.timed("start"):
            await sandbox.start()
        await _all_steps(plan, agent, sandbox, record, on_phase)
    except SandboxError as error:
        record.failure = Failure("sandbox", error.cause, str(error))
    except OSError as error:
        # A full disk, no more processes or descriptors: another rollout may be the cause, and must not end the run.
        record.failure = Failure("engine", "machine", f"this machine refused: {str(error)[:300]}")
    finally:
        on_phase("stopping")
        with record.timed("stop"):
            await asyncio.shield(_clean(plan, sandbox, record))
    return _result(plan, sandbox, record), record.trajectories


async def _clean(plan: RolloutPlan, sandbox: Sandbox, record: _Record) -> None:
    """Stop the sandbox and remove the folder. A sandbox that will not stop is reported, not scored away."""
    try:
        await sandbox.stop()
    except SandboxError as error:
        record.failure = record.failure or Failure("sandbox", error.cause, str(error))
    await asyncio.to_thread(shutil.rmtree, plan.folder, ignore_errors=True)


async def _all_steps(plan: RolloutPlan, agent: Agent, sandbox: Sandbox, record: _Record, on_phase: Phase) -> None:
    for number, step in enumerate(steps_of(plan.task)):
        if number:
            await clear_tests(sandbox)
        await prepare_step(sandbox, step)
        protected = Protected(sandbox, plan.task.protected)
        await protected.keep()
        on_phase("agent")
        with record.timed("agent"):
            end = await agent.act(_assignment(plan, step, number), sandbox)
        record.stop_run = record.stop_run or end.stop_run
        if end.trajectory is not None:
            record.trajectories.append(end.trajectory)
        on_phase("verifying")
        with record.timed("verify"):
            verdict = await _judge(plan, step, sandbox, end, protected)
        record.steps.append(_step_result(step, end, verdict))
        if not step.passes(verdict.reward.value, verdict.reward.entries):
            return


async def _judge(plan: RolloutPlan, step: Step, sandbox: Sandbox, end: AgentEnd, protected: Protected) -> Verdict:
    """Score the step, unless what ended it was nobody's work to be scored."""
    if end.failure is not None and end.failure.owner != "agent":
        return Verdict(Reward(None, {}, end.failure))
    judging = Judging(step.tests, step.verifier_sec * plan.timeout_multiplier, step.verifier_env, step.verifier_user)
    return await verify(sandbox, judging, protected)


def _assignment(plan: RolloutPlan, step: Step, number: int) -> Assignment:
    seconds = DEFAULT_AGENT_SEC if step.agent_sec is None else step.agent_sec
    return Assignment(
        task=plan.task,
        instruction=step.instruction,
        solution=step.solution,
        solution_env=plan.task.solution_env,
        timeout_sec=seconds * plan.timeout_multiplier,
        user=step.agent_user,
        scope=f"{plan.scope}/{number}",
        number=number,
        folder=plan.folder,
    )


def _step_result(step: Step, end: AgentEnd, verdict: Verdict) -> StepResult:
    return StepResult(
        name=step.name,
        ending=end.ending,
        detail=end.detail,
        reward=verdict.reward.value,
        rewards=verdict.reward.entries,
        failure=verdict.reward.failure or end.failure,
        turns=end.turns,
        usage=end.usage,
        verifier_output=verdict.output,
    )


def _result(plan: RolloutPlan, sandbox: Sandbox, record: _Record) -> RolloutResult:
    steps, expected = tuple(record.steps), len(steps_of(plan.task))
    failure = record.failure or next((step.failure for step in steps if step.failure), None)
    cut_short = record.failure is not None and len(steps) < expected
    reward = None if cut_short else overall(steps, expected, plan.task.config.multi_step_reward_strategy)
    return RolloutResult(
        id=plan.id,
        task=plan.task.name,
        attempt=plan.attempt,
        reward=reward,
        failure=failure or _unexplained(reward),
        steps=steps,
        seconds={phase: round(value, 4) for phase, value in record.seconds.items()},
        sandbox=sandbox.kind,
        stop_run=record.stop_run,
    )


def _unexplained(reward: float | None) -> Failure | None:
    """No reward without a cause: if this is ever seen, the fault is the engine's."""
    if reward is not None:
        return None
    return Failure("engine", "unexplained", "no reward, and no part of the engine said why")


