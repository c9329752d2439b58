"""What an agent is for a rollout: something that acts in a started sandbox, once per step of the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from modularrsi.errors import Failure
from modularrsi.sandbox.base import Sandbox
from modularrsi.tasks.model import Task

AgentKind = Literal["harness", "oracle", "nop"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One step's work: what to do, where its reference solution is, how long it may take.

    `scope` names the rollout and step and is the same when a killed run is resumed; `number` counts steps from 0.
    `timeout_sec` None = no limit. `folder` is the engine's private folder for this step.
    """

    task: Task
    instruction: str
    solution: Path | None
    solution_env: Mapping[str, str]
    timeout_sec: float | None
    user: str | int | None
    scope: str
    number: int
    folder: Path


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How the agent's part ended. `trajectory` is ATIF, None for agents that have none. Costs are None when unknown.

    `stop_run`: nothing more can be paid for, so no new rollout should begin.
    """

    ending: str
    detail: str = ""
    failure: Failure | None = None
    trajectory: dict[str, Any] | None = None
    turns: int | None = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    stop_run: bool = False


class Agent(Protocol):
    kind: AgentKind

    async def act(self, assignment: Assignment, sandbox: Sandbox) -> AgentEnd:
        """Do the step. Raises SandboxError when the sandbox fails; everything else is an `AgentEnd`."""
        ...

    def describe(self) -> dict[str, Any]:
        """What goes into the run's contract: kind, digests, limits. No secrets."""
        ...
