"""What a function may return: the type of its point, and of the fields that the kernel relies on.

Checked on every call, so that a mistake is found at the function that made it and not three calls later at another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.types import (
    Advice,
    Command,
    Decision,
    Ending,
    Grammar,
    Guidance,
    Recovery,
    Reply,
    Routed,
    Snapshot,
)

RETURN_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (Advice, Decision, Ending, Grammar, Guidance, Recovery, Routed, Snapshot, str)
}

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _opinion(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _each(kind: type) -> Check:
    return lambda value: isinstance(value, tuple | list) and all(isinstance(item, kind) for item in value)  # pyright: ignore[reportUnknownVariableType]


_FIELDS: dict[type, dict[str, Check]] = {
    Snapshot: {"text": _text},
    Grammar: {"name": _text, "prompt": _text, "parse": callable, "confirm": _text, "noun": _text},
    Reply: {"error": _text, "commands": _each(Command), "warnings": _each(str)},
    Routed: {"helper": _text, "output": _text, "error": _text},
    Guidance: {"feedback": _text, "hold": _each(int), "reopen": _each(str)},
    Recovery: {"prompt": _text, "reply": _text, "stop": _text, "keep_reply": _truth},
    Advice: {"stop": _opinion, "reason": _text},
    Decision: {"stop": _truth, "reason": _text, "prompt": _text},
    Ending: {"reason": _text, "detail": _text},
}


def complaint(result: object, wanted: str) -> str:
    """What is wrong with a result for a point that returns `wanted`; "" when nothing is."""
    kind = RETURN_TYPES.get(wanted, Reply)
    if not isinstance(result, kind):
        return f"returned {type(result).__name__}, must return {wanted}"
    for name, fits in _FIELDS.get(kind, {}).items():
        value: object = getattr(result, name)
        if not fits(value):
            return f"returned {wanted} with {name}={value!r:.60}"
    return ""
