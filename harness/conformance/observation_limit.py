"""What every `observation/limit` keeps: the bound holds in bytes for any text, and the gap is told truly.

The bound is `Limits.observation_bytes`; the notice about what was left out may come on top, up to 600 bytes.
"""

from __future__ import annotations

import re

from harness.conformance.base import ContextFactory, require
from harness.conformance.odd_text import ODD, ORDINARY, encodable
from harness.conformance.scenes import checked
from harness.points import Limit
from harness.types import Limits

_NOTICE = 600
_LINE = "一" * 9 + "\n"


def case_leaves_short_text_alone(fn: Limit, make_context: ContextFactory) -> None:
    """Text within the bound is unchanged, up to the last byte."""
    for limit in (len(ORDINARY.encode()), 10_000):
        limited = _limit(fn, ORDINARY, make_context, limit)
        require(limited == ORDINARY, f"{len(ORDINARY.encode())} bytes were changed for a limit of {limit}")
    exact = "é" * 500
    require(_limit(fn, exact, make_context, 1_000) == exact, "1,000 bytes were changed for a limit of 1,000")


def case_bounds_any_text(fn: Limit, make_context: ContextFactory) -> None:
    """The result fits, whatever the text: wide characters, surrogates, control sequences, one line or many."""
    for odd in (*ODD.values(), *(text * 40 for text in ODD.values() if len(text) < 5_000), ORDINARY * 500):
        for limit in (10_000, 1_000, 7, 0):
            _limit(fn, odd, make_context, limit)


def case_keeps_as_much_as_it_may(fn: Limit, make_context: ContextFactory) -> None:
    """At least half of the allowed bytes are used for the text itself."""
    limited = _limit(fn, _LINE * 4_000, make_context, 10_000)
    kept = 3 * limited.count("一")
    require(kept >= 5_000, f"only {kept} bytes of the text are left for a limit of 10,000")


def case_tells_the_truth_about_the_gap(fn: Limit, make_context: ContextFactory) -> None:
    """It says how much is missing, or how much there was: in bytes, characters or lines, and the number is right."""
    text = _LINE * 4_000
    for limit in (10_000, 3_000):
        limited = _limit(fn, text, make_context, limit)
        said = {int(number) for number in re.findall(r"\d+", re.sub(r"(?<=\d)[,_](?=\d{3})", "", limited))}
        require(bool(said - {limit}), "it does not say how much was left out")
        require(any(_is_true(number, text, limited) for number in said), f"none of {sorted(said)} is what is missing")


def case_splits_no_character(fn: Limit, make_context: ContextFactory) -> None:
    """A cut falls between characters: no replacement characters appear."""
    for limit in range(990, 1_000):
        limited = _limit(fn, "日😀é" * 1_000, make_context, limit)
        require("\ufffd" not in limited, f"a character was split at a limit of {limit}")


def _limit(fn: Limit, text: str, make_context: ContextFactory, limit: int) -> str:
    limited = checked(fn(text, make_context(limits=Limits(observation_bytes=limit))), str)
    require(encodable(limited) or not encodable(text), "lone surrogates appear")
    size = len(limited.encode("utf-8", "surrogatepass"))
    require(size <= limit + _NOTICE, f"{size} bytes for a limit of {limit}")
    return limited


def _is_true(number: int, text: str, limited: str) -> bool:
    """Whether a number in the notice is the size of the gap or of the whole, in some unit (edges may be a line off)."""
    kept = limited.count("一")
    characters = text.count("一") - kept
    lines = len(text) / len(_LINE)
    gap_lines = lines - kept / (len(_LINE) - 1)
    near = 2 * len(_LINE.encode())
    sizes = (3 * characters + gap_lines, characters + gap_lines, len(text), len(text.encode()))
    return any(abs(number - size) <= near for size in sizes) or any(abs(number - n) <= 3 for n in (lines, gap_lines))
