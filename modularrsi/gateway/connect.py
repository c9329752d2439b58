"""Puts a gateway together from settings: keys, clients, limiters, prices, books."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from modularrsi.errors import UserError
from modularrsi.gateway.budget import Ledger
from modularrsi.gateway.call import Line
from modularrsi.gateway.caps import Budget
from modularrsi.gateway.client import OpenAIService
from modularrsi.gateway.clock import Clock, SystemClock
from modularrsi.gateway.gateway import Gateway, GatewayEvent, Mode
from modularrsi.gateway.journal import Journal, MemoryJournal
from modularrsi.gateway.keys import NO_KEY, resolve_key
from modularrsi.gateway.limits import Limiter
from modularrsi.gateway.prices import Prices
from modularrsi.gateway.resume import books
from modularrsi.gateway.service import Service
from modularrsi.gateway.settings import ModelRole, ModelSettings
from modularrsi.redact import Redactor


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All of the gateway's settings. `where` names their file in messages."""

    models: Mapping[ModelRole, ModelSettings]
    budget: Budget = field(default_factory=Budget)
    prices: Prices = field(default_factory=Prices)
    where: str = "settings"


def preflight(settings: GatewaySettings) -> None:
    """Refuse, before the run, caps that could not be kept. Raises UserError that names field and fix."""
    for role, model in settings.models.items():
        caps = (settings.budget.total, settings.budget.of(role))
        capped_usd = any(c.usd is not None for c in caps)
        place = f"{settings.where}: models.{role}"
        if capped_usd and settings.prices.of(model.model) is None:
            raise UserError(f'{place}: the price of {model.model} is not known, so a cap in usd cannot be kept; add '
                            f'[prices."{model.model}"] with input and output (0 if it is free), or cap tokens instead')
        if model.max_output_tokens is None and (capped_usd or any(c.tokens is not None for c in caps)):
            raise UserError(f"{place}.max_output_tokens is not set, so a call has no worst case and a cap in usd or "
                            "tokens cannot be kept; set it")


def secrets(settings: GatewaySettings, environ: Mapping[str, str] | None = None) -> list[str]:
    """The keys in use, for a `Redactor`. Raises UserError as `resolve_key` does."""
    keys = {
        resolve_key(model, f"{settings.where}: models.{role}", environ) for role, model in settings.models.items()
    }
    return sorted(keys - {NO_KEY})


def connect(
    settings: GatewaySettings,
    *,
    run_id: str,
    journal: Journal | None = None,
    mode: Mode = "live",
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    on_event: Callable[[GatewayEvent], None] | None = None,
) -> Gateway:
    """A gateway whose books go on where the journal ends. Nothing is sent; a replay needs no key.

    `run_id` goes into idempotency keys: two runs that ask the same get two answers. Raises UserError for a missing
    key and for caps that could not be kept.
    """
    clock = clock or SystemClock()
    journal = journal or MemoryJournal()
    ledger = Ledger(settings.budget, clock)
    if mode != "replay":
        preflight(settings)
        ledger.restore(books(journal.history()))
    known = [] if mode == "replay" else secrets(settings, environ)
    lines = _lines(settings, environ, clock, offline=mode == "replay")
    listening = {} if on_event is None else {"on_event": on_event}
    return Gateway(
        lines, run_id=run_id, ledger=ledger, journal=journal, mode=mode, clock=clock,
        redact=Redactor(known, patterns=False).text, **listening,
    )  # fmt: skip


def _lines(
    settings: GatewaySettings, environ: Mapping[str, str] | None, clock: Clock, offline: bool
) -> dict[str, Line]:
    """Roles that use one service and key share its connections; roles that use one model there share its limits."""
    services: dict[tuple[str, str], Service] = {}
    limiters: dict[tuple[str, str], Limiter] = {}
    lines: dict[str, Line] = {}
    for role, model in settings.models.items():
        key = NO_KEY if offline else resolve_key(model, f"{settings.where}: models.{role}", environ)
        if (model.url, key) not in services:
            services[model.url, key] = OpenAIService(model.url, key)
        if (model.url, model.model) not in limiters:
            limiters[model.url, model.model] = _limiter(settings, model, clock)
        lines[role] = Line(
            role, model, services[model.url, key], limiters[model.url, model.model], settings.prices.of(model.model)
        )
    return lines


def _limiter(settings: GatewaySettings, model: ModelSettings, clock: Clock) -> Limiter:
    """The lowest of the limits that the roles which share a model give it."""
    sharing = [m for m in settings.models.values() if (m.url, m.model) == (model.url, model.model)]
    return Limiter(
        min((m.requests_per_minute for m in sharing if m.requests_per_minute), default=None),
        min((m.tokens_per_minute for m in sharing if m.tokens_per_minute), default=None),
        min(m.concurrency for m in sharing),
        clock,
    )
