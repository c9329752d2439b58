"""What may be written down: cleaned, redacted, and of bounded size, whatever a worker sent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, cast

TEXT_CHARS = 200_000
SUMMARY_CHARS = 4_000
NOTE_CHARS = 2_000
_ITEMS = 50
_DEPTH = 6
_SURROGATE = re.compile("[\ud800-\udfff]")

Redact = Callable[[str], str]


def clean(text: str) -> str:
    """Without lone surrogates, which no JSON reader has to accept."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters and a line that says how many are missing from the middle."""
    if len(text) <= limit:
        return text
    head, tail = limit - limit // 2, limit // 2
    return f"{text[:head]}\n[… {len(text) - limit} characters are not recorded …]\n{text[len(text) - tail:]}"


def bounded(value: Any, redact: Redact, limit: int, depth: int = _DEPTH) -> Any:
    """`value` as JSON: long texts and lists are cut, NaN becomes None, what JSON lacks is only named.

    Redaction comes before cutting: half a key is not recognised as one.
    """
    if isinstance(value, str):
        return cut(redact(clean(value)), limit)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple)) and not depth:
        return "[nested too deeply to record]"
    if isinstance(value, dict):
        items = list(cast(dict[Any, Any], value).items())[:_ITEMS]
        return {bounded(str(key), redact, 200): bounded(item, redact, limit, depth - 1) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [bounded(item, redact, limit, depth - 1) for item in cast(list[Any], value)[:_ITEMS]]
    return f"[{type(value).__name__}]"
