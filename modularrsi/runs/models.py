"""Which models a run asks: from the command line, from a file, or the product's own simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.gateway.caps import Budget, Caps, read_budget
from modularrsi.gateway.connect import GatewaySettings
from modularrsi.gateway.prices import Prices, read_prices
from modularrsi.gateway.settings import model_settings, read_models
from modularrsi.runs.request import RunRequest
from modularrsi.simulation.embedded import URL
from modularrsi.simulation.names import EMBEDDED, model_of
from modularrsi.simulation.settings import Simulation, overlay, parse_assignments, read_simulation
from modularrsi.toml import read_toml

_COMMAND_LINE = "command line"
_FIELDS = ("model", "base_url", "api_key_env", "temperature", "reasoning_effort", "max_output_tokens", "context_tokens")
_TABLES = ("models", "budget", "prices", "simulation")


def chosen_models(request: RunRequest) -> tuple[GatewaySettings, Simulation | None]:
    """The settings, and those of the embedded simulator when a model of it is among them.

    Raises UserError for settings that are wrong, missing, or mean nothing without the simulator.
    """
    if request.models_file is not None:
        return _from_file(request, request.models_file)
    if request.model is None:
        raise UserError("which model? Pass --model simulated (no key needed), --model NAME (with --base-url for an "
                        "endpoint that is not OpenAI's), or --models FILE; --agent oracle and --agent nop need none")
    table = {name: value for name in _FIELDS if (value := getattr(request, name)) is not None}
    if request.model == EMBEDDED:
        if request.api_key_env:
            raise UserError(f"--api-key-env: the model {EMBEDDED} runs inside the product, without a key; leave it out")
        table["base_url"] = URL
    solver = model_settings(table, f"{_COMMAND_LINE}: model")
    settings = GatewaySettings({"solver": solver}, Budget(_caps(request)), Prices(), _COMMAND_LINE)
    return _with_simulation(settings, {}, request)


def _from_file(request: RunRequest, path: Path) -> tuple[GatewaySettings, Simulation | None]:
    table = read_toml(path)
    for name in table.keys() - {*_TABLES}:
        raise UserError(f"{path}: the table {name} is unknown; a models file has {', '.join(_TABLES)}")
    models = read_models(_table(table, "models", path), str(path))
    if "solver" not in models:
        raise UserError(f"{path}: no model for the solver; add a table models.default or models.solver")
    solver = models["solver"]
    if solver.simulated and solver.base_url is None:
        solver = replace(solver, base_url=URL)
    budget = read_budget(_table(table, "budget", path), str(path))
    rows = zip(_row(_caps(request)), _row(budget.total), strict=True)
    total = Caps(*(theirs if mine is None else mine for mine, theirs in rows))
    prices = read_prices(_table(table, "prices", path), str(path))
    settings = GatewaySettings({"solver": solver}, Budget(total, budget.roles), prices, str(path))
    return _with_simulation(settings, _table(table, "simulation", path), request)


def _with_simulation(
    settings: GatewaySettings, table: Mapping[str, Any], request: RunRequest
) -> tuple[GatewaySettings, Simulation | None]:
    """The simulator's window is the one that the harness is told of, whichever of the two is set."""
    solver = settings.models["solver"]
    if solver.url != URL:
        if request.simulate:
            raise UserError("--simulate sets the embedded simulator, unused here: add --model simulated")
        return settings, None
    table = overlay(table, parse_assignments(request.simulate))
    if solver.context_tokens is not None:
        table = {"context_tokens": solver.context_tokens, **table}
    simulation = read_simulation(table, f"{settings.where}: simulation")
    window = solver.context_tokens or simulation.context_tokens
    solver = replace(solver, model=model_of("solver"), context_tokens=window)
    return replace(settings, models={"solver": solver}), simulation


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
