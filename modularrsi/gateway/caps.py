"""The caps of a run, as the user writes them.

    [budget]
    usd = 25.0
    seconds = 14400

    [budget.analyst]
    usd = 2.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.gateway.settings import ROLES


@dataclass(frozen=True, slots=True)
class Caps:
    """None = no cap. `seconds` runs on the wall clock from the start of the run, over all its sessions."""

    tokens: int | None = None
    usd: Decimal | None = None
    calls: int | None = None
    seconds: float | None = None


NO_CAPS = Caps()


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps in total and of single roles; both hold at once."""

    total: Caps = NO_CAPS
    roles: Mapping[str, Caps] = field(default_factory=dict[str, Caps])

    def of(self, role: str) -> Caps:
        return self.roles.get(role, NO_CAPS)


def read_budget(table: Mapping[str, Any], where: str) -> Budget:
    """The `budget` table of a settings file. Raises UserError that names file, field and fix."""
    total = {name: value for name, value in table.items() if name not in ROLES}
    roles = {role: _caps(table[role], f"{where}: budget.{role}") for role in ROLES if role in table}
    return Budget(_caps(total, f"{where}: budget"), roles)


def _caps(table: object, where: str) -> Caps:
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table with tokens, usd, calls or seconds")
    fields = cast(Mapping[str, Any], table)
    for name in fields.keys() - {"tokens", "usd", "calls", "seconds"}:
        raise UserError(f"{where}.{name} is unknown; a budget has tokens, usd, calls and seconds, or a role's table")
    for name, value in fields.items():
        _check(name, value, f"{where}.{name}")
    usd = Decimal(str(fields["usd"])) if "usd" in fields else None
    return Caps(fields.get("tokens"), usd, fields.get("calls"), fields.get("seconds"))


def _check(name: str, value: object, where: str) -> None:
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or cast(float, value) < 0:
        raise UserError(f"{where} must be a number, 0 or more; leave it out for no cap")
    if name in ("tokens", "calls") and not isinstance(value, int):
        raise UserError(f"{where} must be a whole number")
