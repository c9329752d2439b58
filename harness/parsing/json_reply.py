"""Replies as one JSON object, read as Terminus-2 reads them.

The first balanced object of the reply counts. When it cannot be used, two repairs are tried in order and kept only if
their result has no error: closing braces are added, or the first flat object (one level of nesting) is taken instead.
Two deliberate differences: durations are clamped (`harness.parsing.durations`), and `task_complete` means complete
only as `true` or as one of the strings true/yes/1.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from harness.parsing.durations import MAX_DURATION, clamp_duration
from harness.parsing.notes import Notes
from harness.text import replace_surrogates
from harness.types import Command, Reply

_REQUIRED = ("analysis", "plan", "commands")
_COMMAND_FIELDS = frozenset({"keystrokes", "duration"})
# A backslash hides the next character inside and outside of strings.
_TOKEN = re.compile(r'\\.|["{}]', re.DOTALL)
_FLAT_OBJECT = re.compile(r"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}")
_PREVIEW = 100
_MAX_DIGITS = 400
_MAX_DEPTH = 10_000  # far more than the decoder takes


def parse_json(text: str, max_wait: float = MAX_DURATION) -> Reply:
    """Read a reply. Never raises; time is linear in the text."""
    text = replace_surrogates(text)
    first = _Reader(text, max_wait).read()
    if not first.error:
        return first
    for repair, what in ((_add_braces, "closing brace added"), (_flat_object, "object cut out of other text")):
        repaired = repair(text)
        reply = _Reader(repaired, max_wait).read() if repaired else first
        if not reply.error:
            note = f"Your reply was repaired ({what}); send a complete, valid JSON object next time"
            return _replace(reply, text, (note, *reply.warnings))
    return first


def _replace(reply: Reply, raw: str, warnings: tuple[str, ...]) -> Reply:
    return Reply(reply.commands, reply.complete, reply.error, warnings, reply.analysis, reply.plan, raw)


def _add_braces(text: str) -> str:
    missing = text.count("{") - text.count("}")
    return text + "}" * missing if missing > 0 else ""


def _flat_object(text: str) -> str:
    for match in _FLAT_OBJECT.finditer(text):
        found = match[0]
        # Without a quote it can only be JSON when it is empty: code and prose are full of other braces.
        if ('"' in found or not found[1:-1].strip()) and not isinstance(_load(found), _Unreadable):
            return found
    return ""


class _Unreadable:
    """Why a text is not JSON."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _integer(digits: str) -> int | float:
    """Python refuses to convert integers of more than 4,300 digits; as a float they are merely infinite."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def _load(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return _Unreadable(str(error))
    except RecursionError:
        return _Unreadable("it is nested too deeply")


def _find_object(text: str) -> tuple[int, int]:
    """(start, end) of the first balanced object, or (-1, -1). Braces inside strings do not count."""
    start, depth, in_string = -1, 0, False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == '"':
            in_string = not in_string
        elif in_string or mark[0] == "\\":
            continue
        elif mark == "{":
            if depth == 0:
                start = token.start()
            depth += 1
            if depth > _MAX_DEPTH:
                return -1, -1
        else:
            depth -= 1
            if depth == 0 and start >= 0:
                return start, token.end()
    return -1, -1


class _Reader:
    """One attempt to read one text; collects warnings on the way."""

    def __init__(self, text: str, max_wait: float) -> None:
        self.text = text
        self.max_wait = max_wait
        self.notes = Notes()

    def read(self) -> Reply:
        start, end = _find_object(self.text)
        if start < 0:
            self.notes.add("The reply has no complete JSON object")
            return self._failed("No JSON object could be found in the reply")
        self._note_extra_text(start, end)
        data = _load(self.text[start:end])
        if isinstance(data, _Unreadable):
            return self._failed(f"The JSON is invalid: {data.reason}. It begins: {self.text[start:end][:_PREVIEW]!r}")
        fields = cast(dict[str, Any], data)  # it starts with a brace
        error = self._check_fields(fields)
        if error:
            return self._failed(error)
        return self._understood(fields)

    def _note_extra_text(self, start: int, end: int) -> None:
        if self.text[:start].strip():
            self.notes.add("There is text before the JSON object")
        if self.text[end:].strip():
            self.notes.add("There is text after the JSON object")

    def _check_fields(self, fields: dict[str, Any]) -> str:
        missing = [name for name in _REQUIRED if name not in fields]
        if missing:
            return f"Fields are missing: {', '.join(missing)}"
        for name in ("analysis", "plan"):
            if not isinstance(fields[name], str):
                self.notes.add(f"'{name}' should be a string")
        if not isinstance(fields["commands"], list):
            return "'commands' must be an array of objects"
        found = [name for name in fields if name in _REQUIRED]
        if found != list(_REQUIRED):
            self.notes.add(f"The fields come as {', '.join(found)}; the order is {', '.join(_REQUIRED)}")
        return ""

    def _understood(self, fields: dict[str, Any]) -> Reply:
        complete = self._is_complete(fields.get("task_complete"))
        analysis, plan = _as_text(fields["analysis"]), _as_text(fields["plan"])
        commands, error = self._read_commands(fields["commands"])
        if error and complete:
            self.notes.add(f"{error}; none of the commands was run")
            commands, error = [], ""
        return Reply(
            tuple(commands) if not error else (),
            complete and not error,
            error,
            self.notes.all(),
            analysis,
            plan,
            self.text,
        )

    def _is_complete(self, value: object) -> bool:
        if isinstance(value, str):
            return value.lower() in ("true", "yes", "1")
        if value is not None and not isinstance(value, bool):
            self.notes.add("'task_complete' must be true or false; the task is not taken as complete")
        return value is True

    def _read_commands(self, items: list[Any]) -> tuple[list[Command], str]:
        commands: list[Command] = []
        for number, item in enumerate(items, 1):
            if not isinstance(item, dict):
                return [], f"Command {number} must be an object"
            fields = cast(dict[str, Any], item)
            keystrokes = fields.get("keystrokes")
            if not isinstance(keystrokes, str):
                return [], f"Command {number} needs 'keystrokes', a string"
            unknown = sorted(fields.keys() - _COMMAND_FIELDS)
            if unknown:
                names = replace_surrogates(", ".join(unknown))[:_PREVIEW]
                self.notes.add(f"Command {number} has fields that are not known: {names}")
            if keystrokes and not keystrokes.endswith("\n") and number < len(items):
                self.notes.no_newline(number)
            commands.append(Command(replace_surrogates(keystrokes), self._read_duration(fields, number)))
        return commands, ""

    def _read_duration(self, fields: dict[str, Any], number: int) -> float:
        value = fields.get("duration")
        if not isinstance(value, (int, float)):
            problem = "has a 'duration' that is not a number" if "duration" in fields else "has no 'duration'"
            self.notes.add(f"Command {number} {problem}; 1.0 is used")
        return clamp_duration(value, self.max_wait)

    def _failed(self, error: str) -> Reply:
        return Reply((), False, replace_surrogates(error), self.notes.all(), "", "", self.text)


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return replace_surrogates(value)
    try:
        return replace_surrogates(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return ""
