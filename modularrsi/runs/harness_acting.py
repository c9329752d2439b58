"""The harness as who acts: its library, its model, its cage, all checked before the run begins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from harness.errors import LibraryError
from harness.loader import library_digest, seed_library_path
from harness.types import Limits
from modularrsi.agents.base import Agent
from modularrsi.agents.harness import HarnessAgent, HarnessUnderTest
from modularrsi.cage.choose import cage_sentence, choose_cage
from modularrsi.errors import UserError
from modularrsi.gateway.connect import connect, preflight, secrets
from modularrsi.gateway.gateway import GatewayEvent
from modularrsi.runs.acting import Scene
from modularrsi.runs.journal import StoreJournal
from modularrsi.runs.models import chosen_models
from modularrsi.runs.request import RunRequest
from modularrsi.simulation.embedded import serving
from modularrsi.store import RunStore
from modularrsi.terminal.server import tmux_availability

_AS_FLAGS = (
    "(as options: --api-key-env, --base-url, --max-output-tokens; api_key_file and prices need a file: --models FILE)"
)


class HarnessActing:
    """Raises UserError on construction for anything that is wrong with model, key, caps, terminal, library, composition
    or cage."""

    def __init__(self, request: RunRequest) -> None:
        self._limits = Limits(max_turns=request.max_turns)
        try:
            self._gateway, self._simulation = chosen_models(request)
            preflight(self._gateway)
            self._secrets = secrets(self._gateway)
        except UserError as error:
            raise error if request.models_file or not request.model else UserError(f"{error} {_AS_FLAGS}") from None
        _check_terminal()
        self._harness = _harness(request)
        self._cage = choose_cage(request.allow_no_cage, request.cage)
        self.sentence = cage_sentence(self._cage)
        if self._simulation:
            self.sentence += f"\nmodel: simulated (seed {self._simulation.seed}); the numbers are no real model's"

    def describe(self) -> Mapping[str, Any]:
        return HarnessAgent.description(self._harness, self._limits, self._cage)

    def models(self) -> Mapping[str, Any]:
        models: dict[str, Any] = {role: settings.describe() for role, settings in self._gateway.models.items()}
        return models | ({"simulation": self._simulation.describe()} if self._simulation else {})

    def secrets(self) -> list[str]:
        return self._secrets

    async def agent(self, stack: AsyncExitStack, store: RunStore, scene: Scene) -> Agent:
        await asyncio.to_thread(self._cage.sweep)
        settings = self._gateway
        if self._simulation:
            settings = await stack.enter_async_context(serving(settings, self._simulation, scene.tasks))
        gateway = connect(
            settings,
            run_id=scene.name,
            journal=StoreJournal(store),
            on_event=lambda event: scene.on_event(_sentence(event)),
        )
        await stack.enter_async_context(gateway)
        return HarnessAgent(self._harness, gateway, self._cage, self._limits, scene.redactor)


def _check_terminal() -> None:
    """Without a terminal every rollout would be unscored, one after the other."""
    found = tmux_availability()
    if not found.usable:
        raise UserError(f"the harness types into a terminal: {found.detail}; {found.fix}")


def _harness(request: RunRequest) -> HarnessUnderTest:
    library = Path(request.library or seed_library_path()).resolve()
    try:
        digest = library_digest(library)
    except LibraryError as error:
        raise UserError(str(error)) from error
    return HarnessUnderTest(library, digest, _composition(request.composition, library))


def _composition(chosen: Path | None, library: Path) -> dict[str, Any] | None:
    """The composition as data. It is the worker that checks it against the library: reading a library runs its code."""
    path = chosen or library / "composition.json"
    if chosen is None and not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold an object of point -> list of function names")
    return cast(dict[str, Any], content)


def _sentence(event: GatewayEvent) -> str:
    return f"{event.scope}: {event.cause}, next attempt in {event.wait_sec:.1f} s ({event.message[:120]})"
