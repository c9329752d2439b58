"""The state of a run, as a fold over its events. Nothing else remembers anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modularrsi.rollout.result import RolloutResult
from modularrsi.store import Event


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished rollout and the blobs of its trajectories, one a step."""

    result: RolloutResult
    trajectory_blobs: tuple[str, ...]


@dataclass(slots=True)
class RunState:
    """`planned` are rollout ids in order; `finished` holds the last result of each; `started` counts attempts to run
    a rollout, interrupted ones included; `superseded` counts unscored results that were retried."""

    contract: dict[str, Any] = field(default_factory=dict[str, Any])
    contract_digest: str = ""
    planned: tuple[str, ...] = ()
    finished: dict[str, Finished] = field(default_factory=dict[str, Finished])
    started: dict[str, int] = field(default_factory=dict[str, int])
    retries: dict[str, int] = field(default_factory=dict[str, int])
    complete: bool = False
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def open_rollouts(self) -> list[str]:
        return [name for name in self.planned if name not in self.finished]

    @property
    def unscored(self) -> list[str]:
        return [name for name, done in self.finished.items() if done.result.reward is None]


def reduce(state: RunState, event: Event) -> RunState:
    """One event onto the state. Events of other parts (model calls) are none of its business."""
    handler = _HANDLERS.get(event.type)
    if handler is not None:
        handler(state, event.data)
    return state


def _created(state: RunState, data: Mapping[str, Any]) -> None:
    state.contract = dict(data["contract"])
    state.contract_digest = data["contract_digest"]
    state.planned = tuple(data["rollouts"])
    state.info = data.get("info", {})


def _started(state: RunState, data: Mapping[str, Any]) -> None:
    state.started[data["id"]] = state.started.get(data["id"], 0) + 1
    state.complete = False


def _finished(state: RunState, data: Mapping[str, Any]) -> None:
    result = RolloutResult.from_json(data["result"])
    state.finished[result.id] = Finished(result, tuple(data["trajectory_blob"]))


def _retried(state: RunState, data: Mapping[str, Any]) -> None:
    """An unscored result is set aside; its event stays in the log for ever."""
    state.finished.pop(data["id"], None)
    state.retries[data["id"]] = state.retries.get(data["id"], 0) + 1
    state.complete = False


def _complete(state: RunState, data: Mapping[str, Any]) -> None:
    state.complete = True


_HANDLERS = {
    "run.created": _created,
    "rollout.started": _started,
    "rollout.finished": _finished,
    "rollout.retried": _retried,
    "run.complete": _complete,
}
