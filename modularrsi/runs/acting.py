"""Who acts in a run, made from the request: the reference agents need nothing, the harness a model and a cage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from modularrsi.agents.base import Agent
from modularrsi.agents.reference import Nop, Oracle
from modularrsi.errors import UserError
from modularrsi.redact import Redactor
from modularrsi.runs.request import RunRequest
from modularrsi.store import RunStore
from modularrsi.tasks.model import Task


@dataclass(frozen=True, slots=True)
class Scene:
    """What an agent is told of the run that it acts in. `on_event` hears of retries."""

    name: str
    tasks: tuple[Task, ...]
    redactor: Redactor
    on_event: Callable[[str], None]


class Acting(Protocol):
    """Decided and checked before the run's folder is opened; the agent itself is made after."""

    sentence: str

    def describe(self) -> Mapping[str, Any]: ...

    def models(self) -> Mapping[str, Any]: ...

    def secrets(self) -> list[str]: ...

    async def agent(self, stack: AsyncExitStack, store: RunStore, scene: Scene) -> Agent: ...


class ReferenceActing:
    """`oracle` and `nop`."""

    sentence = ""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def describe(self) -> Mapping[str, Any]:
        return self._agent.describe()

    def models(self) -> Mapping[str, Any]:
        return {}

    def secrets(self) -> list[str]:
        return []

    async def agent(self, stack: AsyncExitStack, store: RunStore, scene: Scene) -> Agent:
        return self._agent


def reference_acting(request: RunRequest) -> ReferenceActing:
    """Raises UserError for what only the harness has: a library that is not run must not look as if it had been."""
    given = {"--library": request.library, "--composition": request.composition, "--model": request.model,
             "--models": request.models_file, "--simulate": request.simulate or None}
    for flag, value in given.items():
        if value is not None:
            raise UserError(f"{flag} is for --agent harness; --agent {request.agent} runs no harness and no model")
    return ReferenceActing(Oracle() if request.agent == "oracle" else Nop())
