"""What tokens cost. A price is known or it is not: an unknown price is None, and a free model has the price 0.

The table that comes along (`prices.toml`) is read from the package; nothing is ever fetched. Money is `Decimal`, so
that sums against a cap are exact.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.gateway.usage import TokenUsage

_MILLION = Decimal(1_000_000)
_FIELDS = ("input", "output", "cached_input", "cache_write")


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars per token, for prompts of more than `above` tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal
    above: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one model: its rates by length of the prompt, shortest first, and where they were read."""

    tiers: tuple[Rates, ...]
    as_of: str = ""
    source: str = ""

    def cost(self, usage: TokenUsage) -> Decimal | None:
        """US dollars of one reply; None when the service did not report prompt and completion tokens.

        `prompt_tokens` includes cached and cache-write tokens, so these are taken out before the input rate applies.
        More of them than the prompt has is a service's slip; they are then held within the prompt.
        """
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        rates = self._rates(usage.prompt_tokens)
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        written = min(usage.cache_write_tokens or 0, usage.prompt_tokens - cached)
        plain = usage.prompt_tokens - cached - written
        return (
            plain * rates.input
            + cached * rates.cached_input
            + written * rates.cache_write
            + usage.completion_tokens * rates.output
        )

    def worst(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """The most that a call of this size can cost."""
        tiers = [rates for rates in self.tiers if rates.above < max(prompt_tokens, 1)]
        dearest = max(max(rates.input, rates.cached_input, rates.cache_write) for rates in tiers)
        return prompt_tokens * dearest + completion_tokens * max(rates.output for rates in tiers)

    def describe(self) -> dict[str, Any]:
        """For the certificate: dollars per million tokens, as text."""
        tiers = [
            {"above": rates.above} | {name: _text(getattr(rates, name) * _MILLION) for name in _FIELDS}
            for rates in self.tiers
        ]
        return {"usd_per_million": tiers, "as_of": self.as_of, "source": self.source}

    def _rates(self, prompt_tokens: int) -> Rates:
        return max((r for r in self.tiers if r.above < max(prompt_tokens, 1)), key=lambda rates: rates.above)


class Prices:
    """Prices by the exact name of a model: the user's own before those of the table that comes along."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})

    def of(self, model: str) -> Price | None:
        """None = unknown. Names are not guessed at: a dated or renamed model may have another price."""
        return self._own.get(model) or bundled().get(model)


def read_prices(table: Mapping[str, Any], where: str) -> Prices:
    """The `prices` table of a settings file: `[prices."<model>"]` with dollars per million tokens.

    `input = 0` and `output = 0` says that a model is free. Raises UserError that names file, model and field.
    """
    return Prices({model: _price(entry, f'{where}: prices."{model}"') for model, entry in table.items()})


@cache
def bundled() -> Mapping[str, Price]:
    """The table that comes along."""
    text = resources.files("modularrsi.gateway").joinpath("prices.toml").read_text(encoding="utf-8")
    vendors = tomllib.loads(text, parse_float=Decimal)
    return {
        model: _price(entry | {"as_of": vendor["as_of"], "source": vendor["source"]}, f'prices.toml: "{model}"')
        for vendor in vendors.values()
        for model, entry in vendor["models"].items()
    }


def _price(entry: object, where: str) -> Price:
    if not isinstance(entry, Mapping):
        raise UserError(f"{where} must be a table with input and output in dollars per million tokens")
    fields = cast(Mapping[str, Any], entry)
    for name in fields.keys() - {*_FIELDS, "above", "as_of", "source"}:
        raise UserError(f"{where}.{name} is unknown; a price has {', '.join(_FIELDS)}, above, as_of and source")
    tiers = [_rates(fields, 0, where)]
    for tier in fields.get("above", []):
        if not isinstance(tier, Mapping) or not _is_count(tier.get("prompt_tokens")):
            raise UserError(f"{where}.above must be a list of tables with prompt_tokens, input and output")
        tiers.append(_rates(cast(Mapping[str, Any], tier), tier["prompt_tokens"], f"{where}.above"))
    return Price(tuple(tiers), str(fields.get("as_of", "")), str(fields.get("source", "")))


def _rates(fields: Mapping[str, Any], above: int, where: str) -> Rates:
    for name in ("input", "output"):
        if name not in fields:
            raise UserError(f"{where}.{name} is missing; give dollars per million tokens, 0 if the model is free")
    given = {name: _money(fields[name], f"{where}.{name}") / _MILLION for name in _FIELDS if name in fields}
    plain = given["input"]
    return Rates(
        plain, given["output"], given.get("cached_input", plain), given.get("cache_write", plain), above
    )


def _money(value: object, where: str) -> Decimal:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return Decimal(str(value))
    raise UserError(f"{where} must be a number of dollars per million tokens, 0 or more")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _text(value: Decimal) -> str:
    return format(value.normalize(), "f")
