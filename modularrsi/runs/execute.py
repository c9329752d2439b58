"""Running what is still open of a run: concurrently, each rollout scored once, everything written down first.

The order of writes makes a kill harmless. A rollout is started (durable), runs, its trajectories become blobs, and only
then is it finished (durable). Killed before that, it starts again from nothing but its recorded model calls, which are
replayed and not paid again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from modularrsi.agents.base import Agent
from modularrsi.errors import Failure, ModularRSIError
from modularrsi.redact import Redactor
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.rollout.result import RolloutResult
from modularrsi.rollout.rollout import MakeSandbox, run_rollout
from modularrsi.runs.state import RunState
from modularrsi.store import RunStore

Listener = Callable[[str, str, RolloutResult | None], None]
"""(rollout id, phase, result): phases are waiting, starting, agent, verifying, stopping, finished."""


@dataclass(frozen=True, slots=True)
class Machinery:
    """What rollouts are made with. `on_change` hears of every phase of every rollout."""

    agent: Agent
    make_sandbox: MakeSandbox
    redactor: Redactor
    concurrency: int
    on_change: Listener = lambda *_: None


async def execute(
    store: RunStore, state: RunState, plans: Sequence[RolloutPlan], machinery: Machinery
) -> Failure | None:
    """Run every open plan. None when all were run; else why the run stopped early: a cap is reached (owner "engine"),
    or the model service refuses the key ("model_service"). Raises StoreError when the run can no longer be written."""
    gate = asyncio.Semaphore(machinery.concurrency)
    stop: list[Failure] = []
    try:
        async with asyncio.TaskGroup() as group:
            for plan in plans:
                if plan.id not in state.finished:
                    group.create_task(_one(store, plan, machinery, gate, stop))
    except BaseExceptionGroup as errors:
        raise _plain(errors) from errors
    if stop:
        return stop[0]
    store.append("run.complete", {}, durable=True)
    return None


def _plain(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of our own errors when there are no others (a full disk meets every rollout at once), else all."""
    ours, others = errors.split(ModularRSIError)
    first: BaseException | None = None if others else ours
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first or errors


async def _one(
    store: RunStore, plan: RolloutPlan, machinery: Machinery, gate: asyncio.Semaphore, stop: list[Failure]
) -> None:
    async with gate:
        if stop:
            return
        store.append("rollout.started", {"id": plan.id}, durable=True)

        def on_phase(phase: str) -> None:
            machinery.on_change(plan.id, phase, None)

        result, trajectories = await run_rollout(plan, machinery.agent, machinery.make_sandbox, on_phase)
        if result.stop_run:
            # Not finished: it starts again, from its recorded calls, when the run is resumed with a higher cap.
            stop.append(result.failure or Failure("engine", "budget", "nothing more can be paid for"))
            machinery.on_change(plan.id, "stopped", result)
            return
        await asyncio.to_thread(_finish, store, result, trajectories, machinery.redactor)
        machinery.on_change(plan.id, "finished", result)


def _finish(
    store: RunStore, result: RolloutResult, trajectories: Sequence[dict[str, Any]], redactor: Redactor
) -> None:
    blobs = [
        store.blobs.put(json.dumps(trajectory, ensure_ascii=True, allow_nan=False).encode("ascii"))
        for trajectory in trajectories
    ]
    store.append(
        "rollout.finished", {"result": redactor.value(result.to_json()), "trajectory_blob": blobs}, durable=True
    )
