"""The harness as who acts: its library, its model, its cage, all checked before the run begins."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from harness.errors import LibraryError
from harness.loader import library_digest, seed_library_path
from harness.types import Limits
from modularrsi.agents.base import Agent
from modularrsi.agents.harness import HarnessAgent, HarnessUnderTest
from modularrsi.cage.choose import cage_sentence, choose_cage
from modularrsi.errors import UserError
from modularrsi.gateway.caps import Budget, Caps, read_budget
from modularrsi.gateway.connect import GatewaySettings, connect, preflight, secrets
from modularrsi.gateway.gateway import GatewayEvent
from modularrsi.gateway.prices import Prices, read_prices
from modularrsi.gateway.settings import model_settings, read_models
from modularrsi.redact import Redactor
from modularrsi.runs.journal import StoreJournal
from modularrsi.runs.request import RunRequest
from modularrsi.store import RunStore
from modularrsi.terminal.server import tmux_availability

_MODEL_FIELDS = (
    "model", "base_url", "api_key_env", "temperature", "reasoning_effort", "max_output_tokens", "context_tokens"
)


_AS_FLAGS = (
    "(as options: --api-key-env, --base-url, --max-output-tokens; api_key_file and prices need a file: --models FILE)"
)


class HarnessActing:
    """Raises UserError on construction for anything that is wrong with model, key, caps, terminal, library, composition
    or cage."""

    def __init__(self, request: RunRequest) -> None:
        self._limits = Limits(max_turns=request.max_turns)
        try:
            self._gateway = _gateway_settings(request)
            preflight(self._gateway)
            self._secrets = secrets(self._gateway)
        except UserError as error:
            raise error if request.models_file or not request.model else UserError(f"{error} {_AS_FLAGS}") from None
        _check_terminal()
        self._harness = _harness(request)
        self._cage = choose_cage(request.allow_no_cage, request.cage)
        self.sentence = cage_sentence(self._cage)

    def describe(self) -> Mapping[str, Any]:
        return HarnessAgent.description(self._harness, self._limits, self._cage)

    def models(self) -> Mapping[str, Any]:
        return {role: settings.describe() for role, settings in self._gateway.models.items()}

    def secrets(self) -> list[str]:
        return self._secrets

    async def agent(
        self, stack: AsyncExitStack, store: RunStore, redactor: Redactor, on_event: Callable[[str], None], run_id: str
    ) -> Agent:
        await asyncio.to_thread(self._cage.sweep)
        gateway = connect(
            self._gateway,
            run_id=run_id,
            journal=StoreJournal(store),
            on_event=lambda event: on_event(_sentence(event)),
        )
        await stack.enter_async_context(gateway)
        return HarnessAgent(self._harness, gateway, self._cage, self._limits, redactor)


def _check_terminal() -> None:
    """Without a terminal every rollout would be unscored, one after the other."""
    found = tmux_availability()
    if not found.usable:
        raise UserError(f"the harness types into a terminal: {found.detail}; {found.fix}")


def _gateway_settings(request: RunRequest) -> GatewaySettings:
    caps = _caps(request)
    if request.models_file is not None:
        return _from_file(request.models_file, caps)
    if request.model is None:
        raise UserError("which model? Pass --model NAME (with --base-url for an endpoint that is not OpenAI's), "
                        "or --models FILE; --agent oracle and --agent nop need none")
    table = {name: value for name in _MODEL_FIELDS if (value := getattr(request, name)) is not None}
    solver = model_settings(table, "command line: model")
    return GatewaySettings({"solver": solver}, Budget(caps), Prices(), "command line")


def _from_file(path: Path, caps: Caps) -> GatewaySettings:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not TOML: {error}") from error
    for name in table.keys() - {"models", "budget", "prices"}:
        raise UserError(f"{path}: the table {name} is unknown; a models file has models, budget and prices")
    models = read_models(_table(table, "models", path), str(path))
    if "solver" not in models:
        raise UserError(f"{path}: no model for the solver; add a table models.default or models.solver")
    budget = read_budget(_table(table, "budget", path), str(path))
    rows = zip(_row(caps), _row(budget.total), strict=True)
    total = Caps(*(theirs if mine is None else mine for mine, theirs in rows))
    prices = read_prices(_table(table, "prices", path), str(path))
    return GatewaySettings({"solver": models["solver"]}, Budget(total, budget.roles), prices, str(path))


def _table(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    value = content.get(name, {})
    if not isinstance(value, dict):
        raise UserError(f"{path}: {name} must be a table")
    return cast(Mapping[str, Any], value)


def _caps(request: RunRequest) -> Caps:
    usd = None if request.max_cost_usd is None else Decimal(str(request.max_cost_usd))
    return Caps(request.max_tokens, usd, request.max_calls)


def _row(caps: Caps) -> tuple[Any, ...]:
    return caps.tokens, caps.usd, caps.calls, caps.seconds


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
