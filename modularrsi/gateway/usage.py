"""Tokens of one reply, as the service counted them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from harness.types import Usage


@dataclass(frozen=True, slots=True)
class TokenUsage(Usage):
    """None = not reported. `prompt_tokens` includes the cached and the cache-write tokens, `completion_tokens` the
    reasoning tokens (the convention of OpenAI's chat completions)."""

    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total(self) -> int | None:
        """Prompt and completion; None when either was not reported."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    def to_json(self) -> dict[str, int | None]:
        return asdict(self)


NOT_REPORTED = TokenUsage()


def read_usage(raw: object) -> TokenUsage:
    """From the `usage` object of a reply. Whatever is missing or no count (negative, NaN, text) is "not reported"."""
    usage = _object(raw)
    prompt_details = _object(usage.get("prompt_tokens_details"))
    completion_details = _object(usage.get("completion_tokens_details"))
    cached = _first(prompt_details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"),
                    usage.get("cache_read_input_tokens"))  # fmt: skip
    written = _first(prompt_details.get("cache_write_tokens"), prompt_details.get("cache_creation_tokens"),
                     usage.get("cache_creation_input_tokens"))  # fmt: skip
    return TokenUsage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=_count(completion_details.get("reasoning_tokens")),
    )


def usage_from_json(raw: object) -> TokenUsage:
    """What `TokenUsage.to_json` wrote."""
    fields = _object(raw)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    return TokenUsage(**{name: _count(fields.get(name)) for name in names})


def _object(raw: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}


def _count(raw: object) -> int | None:
    if isinstance(raw, bool):
        return None
    if isinstance(raw, float) and raw.is_integer():  # is_integer is False for NaN and infinity
        raw = int(raw)
    return raw if isinstance(raw, int) and raw >= 0 else None


def _first(*candidates: object) -> int | None:
    counts = (_count(candidate) for candidate in candidates)
    return next((count for count in counts if count is not None), None)
