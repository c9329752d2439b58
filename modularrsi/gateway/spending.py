"""What was spent, with what is not known kept apart from what is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from typing import Any

from modularrsi.gateway.usage import TokenUsage


@dataclass(slots=True)
class Spending:
    """Sums over calls.

    calls, prompt/completion/cached/cache-write tokens, usd    of replies that came, as reported and priced
    unpriced_calls      replies whose cost is unknown: `usd` is then a lower bound, and `known_usd` None
    possible_calls      requests that went out and brought no reply: they may have been paid
    possible_tokens, possible_usd      at most this much on top, from these and from replies without counts
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    usd: Decimal = Decimal(0)
    unpriced_calls: int = 0
    possible_calls: int = 0
    possible_tokens: int = 0
    possible_usd: Decimal = Decimal(0)

    @property
    def all_calls(self) -> int:
        return self.calls + self.possible_calls

    @property
    def all_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens + self.possible_tokens

    @property
    def all_usd(self) -> Decimal:
        return self.usd + self.possible_usd

    @property
    def known_usd(self) -> Decimal | None:
        """The cost of all replies; None when that of one of them is unknown. 0 means free, or nothing asked yet."""
        return None if self.unpriced_calls else self.usd

    def add_reply(
        self, usage: TokenUsage, usd: Decimal | None, reserved_tokens: int, reserved_usd: Decimal | None
    ) -> None:
        """A reply of this usage and cost; where these are unknown, at most what was reserved."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.cache_write_tokens += usage.cache_write_tokens or 0
        if usage.total is None:
            known = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
            self.possible_tokens += max(0, reserved_tokens - known)
        if usd is None:
            self.unpriced_calls += 1
            self.possible_usd += reserved_usd or Decimal(0)
        else:
            self.usd += usd

    def add_possible(self, tokens: int, usd: Decimal | None) -> None:
        self.possible_calls += 1
        self.possible_tokens += tokens
        self.possible_usd += usd or Decimal(0)

    def add(self, other: Spending) -> None:
        for entry in fields(self):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))

    def copy(self) -> Spending:
        return replace(self)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"usd": str(self.usd), "possible_usd": str(self.possible_usd)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Spending:
        return cls(**{**raw, "usd": Decimal(raw["usd"]), "possible_usd": Decimal(raw["possible_usd"])})
