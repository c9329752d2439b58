"""Small runs on disk without rollouts: events as the engine would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modularrsi.errors import Failure
from modularrsi.rollout.result import RolloutResult, StepResult
from modularrsi.runs.contract import Contract
from modularrsi.store import RunStore

CONTRACT = Contract(
    tasks={"a": "1" * 64, "b": "2" * 64}, attempts=2, sandbox="bubblewrap", isolation="all", agent={"kind": "nop"}
)
IDS = ("a/1", "b/1", "a/2", "b/2")


def result(name: str, reward: float | None, usage: Mapping[str, Any] | None = None) -> RolloutResult:
    failure = None if reward is not None else Failure("verifier", "reward_missing", "no reward")
    step = StepResult("", "complete", reward=reward, failure=failure, turns=3, usage=usage or {})
    task, _, attempt = name.partition("/")
    return RolloutResult(name, task, int(attempt) - 1, reward, failure, (step,), {"agent": 1.0}, "bubblewrap")


def write_run(
    folder: Path, rewards: Mapping[str, float | None], complete: bool = False, contract: Contract = CONTRACT,
    ids: Sequence[str] = IDS, usage: Mapping[str, Any] | None = None,
) -> Path:
    """A run in which the rollouts of `rewards` are finished."""
    with RunStore(folder) as store:
        created = {"contract": contract.to_json(), "contract_digest": contract.digest, "rollouts": list(ids)}
        store.append("run.created", created)
        for name, reward in rewards.items():
            store.append("rollout.started", {"id": name})
            done = {"result": result(name, reward, usage).to_json(), "trajectory_blob": []}
            store.append("rollout.finished", done)
        if complete:
            store.append("run.complete", {})
        store.commit()
    return folder
