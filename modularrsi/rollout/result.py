"""What a rollout comes back with, as data: JSON in, JSON out, None for everything that is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from modularrsi.errors import Failure


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of a task (single-step tasks have one, named ""). `rewards` are the entries the tests wrote."""

    name: str
    ending: str
    detail: str = ""
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    turns: int | None = None
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    verifier_output: str = ""


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """`reward` is None when the rollout is unscored, and `failure` then names the owner. A failure that the agent owns
    comes with a reward. `seconds` are wall-clock seconds by phase (start, agent, verify, stop)."""

    id: str
    task: str
    attempt: int
    reward: float | None
    failure: Failure | None
    steps: tuple[StepResult, ...]
    seconds: Mapping[str, float]
    sandbox: str
    stop_run: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RolloutResult:
        """Raises KeyError or TypeError when `data` was not made by `to_json`."""
        steps = tuple(StepResult(**{**step, "failure": _failure(step["failure"])}) for step in data["steps"])
        return cls(**{**data, "failure": _failure(data["failure"]), "steps": steps})


def _failure(data: Mapping[str, Any] | None) -> Failure | None:
    return None if data is None else Failure(data["owner"], data["cause"], data["message"])


def overall(steps: tuple[StepResult, ...], expected: int, strategy: str) -> float | None:
    """The reward of all steps: their mean, or the last one's (`multi_step_reward_strategy`).

    A step that was not reached because an earlier one fell below its `min_reward` counts 0 in the mean and makes the
    final reward 0 (Harbor). None as soon as one step is unscored.
    """
    rewards = [step.reward for step in steps]
    if not rewards or any(reward is None for reward in rewards):
        return None
    scored = [reward for reward in rewards if reward is not None] + [0.0] * (expected - len(rewards))
    return scored[-1] if strategy == "final" else sum(scored) / len(scored)
