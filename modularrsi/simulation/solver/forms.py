"""The form of reply that a prompt teaches, found out from its example: JSON, tags, or a fenced block of shell.

Nothing here knows the grammars of the seed library by name: an evolved one that calls its fields otherwise is read the
same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

_DECODER = json.JSONDecoder()
_TIMED_TAG = re.compile(r'<(\w+)\s+(\w+)="[0-9.]+"\s*>')
_WORD_TAG = re.compile(r"<(\w+)>\s*(?:true|false)\s*</\1>", re.IGNORECASE)
_MOST_TRIED = 200
"""Braces of one text that are looked at: examples stand near its beginning."""
_FENCE = re.compile(r"```(?:bash|sh|shell)\b")


@dataclass(frozen=True, slots=True)
class Form:
    """How to reply. `keys`, `wait`, `done` and `list` are the names of the fields (or tags) for the keystrokes, the
    duration, the completion and the list of commands; `texts` those of the free texts; `outer` the tag around all."""

    kind: Literal["json", "tags", "fence"]
    keys: str = "keystrokes"
    wait: str = "duration"
    done: str = "task_complete"
    list: str = "commands"
    texts: tuple[str, ...] = ("analysis", "plan")
    outer: str = "response"


def taught(prompt: str) -> Form | None:
    """The form that a first prompt teaches; None when it shows no example of one."""
    for found in objects(prompt):
        form = _json_form(found)
        if form is not None:
            return form
    return _tag_form(prompt) or (Form("fence") if _FENCE.search(prompt) else None)


def shows(form: Form, text: str) -> bool:
    """Whether a text shows an example of this form (a complaint that says how to do it right)."""
    if form.kind == "json":
        return form.keys in text and any(_json_form(found) is not None for found in objects(text))
    if form.kind == "tags":
        return f"<{form.keys}" in text and f"</{form.keys}>" in text
    return bool(_FENCE.search(text))


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, outermost first."""
    start, tried = text.find("{"), 0
    while start >= 0 and tried < _MOST_TRIED:
        tried += 1
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _json_form(example: dict[str, Any]) -> Form | None:
    """Of an object with a list of objects: the field of text in them, of numbers in them, the truth value beside."""
    for name, value in example.items():
        items = cast(list[Any], value) if isinstance(value, list) else []
        if not items or not isinstance(items[0], dict):
            continue
        first = cast(dict[str, Any], items[0])
        keys = next((field for field, entry in first.items() if isinstance(entry, str)), None)
        if keys is None:
            continue
        wait = next((f for f, entry in first.items() if isinstance(entry, (int, float))), "")
        done = next((f for f, entry in example.items() if isinstance(entry, bool)), "")
        texts = tuple(f for f, entry in example.items() if isinstance(entry, str))
        return Form("json", keys, wait, done, name, texts)
    return None


def _tag_form(prompt: str) -> Form | None:
    timed = _TIMED_TAG.search(prompt)
    if timed is None:
        return None
    before = prompt[: timed.start()]
    opened = [name for name in re.findall(r"<(\w+)>", before) if f"</{name}>" in prompt]
    closed = set(re.findall(r"</(\w+)>", before))
    still_open = [name for name in opened if name not in closed]
    done = _WORD_TAG.search(prompt)
    return Form(
        "tags", timed[1], timed[2], done[1] if done else "task_complete",
        still_open[-1] if still_open else "commands",
        tuple(dict.fromkeys(name for name in opened if name in closed)),
        still_open[0] if still_open else "response",
    )  # fmt: skip
