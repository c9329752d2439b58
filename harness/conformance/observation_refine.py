"""What every `observation/refine` keeps: ordinary text survives, nothing raises, nothing grows without bound."""

from __future__ import annotations

from harness.conformance.base import ContextFactory, require
from harness.conformance.odd_text import ODD, ORDINARY, encodable
from harness.conformance.scenes import checked
from harness.points import Refine
from harness.scripted import ScriptedContext

_MOST_ADDED = 2_000


def case_keeps_ordinary_text(fn: Refine, make_context: ContextFactory) -> None:
    """Every line of plain output is still there, letter for letter and in order."""
    refined = _refine(fn, ORDINARY, make_context())
    position = 0
    for line in filter(str.strip, ORDINARY.split("\n")):
        found = refined.find(line.rstrip(), position)
        require(found >= 0, f"the line {line!r} is gone or out of order")
        position = found + len(line.rstrip())


def case_keeps_long_output(fn: Refine, make_context: ContextFactory) -> None:
    """Distinct lines of a long output are kept: cutting is `limit`'s work."""
    lines = [f"test_{number} ... ok" for number in range(500)]
    refined = _refine(fn, "\n".join(lines), make_context())
    lost = [line for line in lines if line not in refined]
    require(not lost, f"{len(lost)} of 500 lines are gone, first {lost[:1]}")


def case_never_raises(fn: Refine, make_context: ContextFactory) -> None:
    """Whatever the terminal shows is refined, alone and around ordinary text, and stays encodable where it was."""
    for name, odd in ODD.items():
        for given in (odd, ORDINARY + odd, odd + ORDINARY):
            refined = _refine(fn, given, make_context())
            require(encodable(refined) or not encodable(given), f"lone surrogates appear from {name}")


def case_does_not_grow(fn: Refine, make_context: ContextFactory) -> None:
    """At most 2,000 characters are added, by one call and after many calls in one rollout."""
    ctx = make_context()
    for _ in range(30):
        _refine(fn, ORDINARY, ctx)
    for odd in ODD.values():
        _refine(fn, odd, ctx)


def case_leaves_the_terminal_alone(fn: Refine, make_context: ContextFactory) -> None:
    """Refining types nothing and asks no model: it works on the text."""
    ctx = make_context()
    _refine(fn, ORDINARY, ctx)
    require(not getattr(ctx.terminal, "sent", ()), "it typed into the terminal")
    require(not getattr(ctx.model, "requests", ()), "it asked the model")


def _refine(fn: Refine, text: str, ctx: ScriptedContext) -> str:
    refined = checked(fn(text, ctx), str)
    added = len(refined) - len(text)
    require(added <= _MOST_ADDED, f"added {added} characters to {len(text)}")
    return refined
