"""How a competent agent solves a task: `solution/walkthrough.toml`, beside `solve.sh` and never shown to an agent.

    [[step]]
    does = "find the release's code in the log"   # a few words, for the agent's plan
    look = "cat /app/build.log"                   # a command whose output is needed …
    needs = 'release code: (?P<code>[0-9a-f]{8})' # … this part of it (a regular expression, searched line by line)
    narrow = "grep 'release code:' /app/build.log"   # how to see just that (default: LOOK | grep -E NEEDS)

    [[step]]
    does = "write the start script"
    write = "/app/start.sh"                       # a file, its content byte for byte, and its mode if it matters
    content = '''
    #!/bin/sh
    echo "$HOME @code@"
    '''
    mode = "755"

    [[step]]
    does = "build it"
    run = "make -C /app"                          # a command; several lines are typed as they are
    seconds = 3.0                                 # how long it takes, when it is not over at once
    chore = true                                  # it meets no requirement of its own (a `cd`, a `mkdir`)

A step has exactly one of `look`, `write` and `run`. `@name@` stands for what a named group of an earlier `needs` found.
A step that is no look and no chore meets a requirement; `names` lists the words by which an instruction or a harness
would name it (default: the absolute paths in it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from modularrsi.errors import UserError
from modularrsi.toml import read_toml

FILE = "walkthrough.toml"
Kind = Literal["look", "write", "run"]

_FIELDS = frozenset({"does", "look", "write", "run", "needs", "narrow", "content", "mode", "seconds", "chore", "names"})
_PATH = re.compile(r"(?<![\w$}{.*])/(?:[\w.+@%-]+/)*[\w.+@%-]+")
_SLOT = re.compile(r"@(\w+)@")
# What every script names and no requirement is about.
_COMMON = ("/bin/", "/usr/", "/dev/", "/etc/profile", "/proc/", "/tmp/")


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `number` counts from 1; `text` is the command (look, run) or the path (write)."""

    number: int
    kind: Kind
    text: str
    does: str = ""
    content: str = ""
    mode: str = ""
    needs: str = ""
    narrow: str = ""
    seconds: float = 0.0
    chore: bool = False
    names: tuple[str, ...] = ()

    @property
    def requirement(self) -> bool:
        """Whether something is missing at the end without it."""
        return self.kind != "look" and not self.chore

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of what must have been seen before: `@name@` in the command, path or content."""
        return tuple(dict.fromkeys(_SLOT.findall(self.text) + _SLOT.findall(self.content)))

    @property
    def finds_names(self) -> tuple[str, ...]:
        """Names of what a look is for: the groups of `needs`."""
        return tuple(re.compile(self.needs).groupindex) if self.needs else ()

    def filled(self, found: Mapping[str, str]) -> Step:
        """With what was found in place of its slots. A slot that nothing was found for stays."""

        def fill(text: str) -> str:
            return _SLOT.sub(lambda match: found.get(match[1], match[0]), text)

        return Step(
            self.number, self.kind, fill(self.text), self.does, fill(self.content), self.mode, self.needs,
            fill(self.narrow), self.seconds, self.chore, self.names,
        )  # fmt: skip

    def finds(self, text: str) -> Mapping[str, str] | None:
        """What `needs` finds in a text, by name of its groups; None when it is not there."""
        return _found(self.needs, text)


@dataclass(frozen=True, slots=True)
class Walkthrough:
    """The steps of one task (or of one step of a multi-step task), in order."""

    steps: tuple[Step, ...]

    @property
    def requirements(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.requirement)


def read_walkthrough(path: Path) -> Walkthrough:
    """Raises UserError that names file, step, field and fix."""
    table = read_toml(path)
    steps = table.get("step")
    if table.keys() != {"step"} or not isinstance(steps, list) or not steps:
        raise UserError(f"{path}: must hold one or more tables [[step]] and nothing else")
    return checked(
        [_step(number, item, f"{path}: step {number}") for number, item in enumerate(cast(list[Any], steps), 1)],
        str(path),
    )


def checked(steps: list[Step], where: str) -> Walkthrough:
    """Raises UserError for a slot that no earlier step can fill."""
    known: set[str] = set()
    for step in steps:
        for slot in step.slots:
            if slot not in known:
                raise UserError(f"{where}: step {step.number}: @{slot}@ is found by no earlier step; name a group "
                                f"(?P<{slot}>…) in the `needs` of an earlier look")
        known |= set(step.finds_names)
    return Walkthrough(tuple(steps))


@lru_cache(4096)
def _found(needs: str, text: str) -> Mapping[str, str] | None:
    match = re.search(needs, text, re.MULTILINE)
    return None if match is None else {name: value or "" for name, value in match.groupdict().items()}


def paths_in(text: str) -> tuple[str, ...]:
    """The absolute paths in a command, without those that every script names."""
    return tuple(dict.fromkeys(path for path in _PATH.findall(text) if not path.startswith(_COMMON)))


def _step(number: int, item: Any, where: str) -> Step:
    if not isinstance(item, dict):
        raise UserError(f"{where} must be a table")
    table = cast(dict[str, Any], item)
    for name in table.keys() - _FIELDS:
        raise UserError(f"{where}.{name} is unknown; there are {', '.join(sorted(_FIELDS))}")
    kinds: list[Kind] = [kind for kind in ("look", "write", "run") if kind in table]
    if len(kinds) != 1:
        raise UserError(f"{where} must have exactly one of look, write and run")
    kind = kinds[0]
    text = _text(table, kind, where)
    needs = _pattern(_text(table, "needs", where, ""), where)
    content = _text(table, "content", where, "")
    if kind == "write" and "content" not in table:
        raise UserError(f"{where}.content is missing: what is to be in {text}")
    if needs and kind != "look":
        raise UserError(f"{where}.needs belongs to a look")
    return Step(
        number, kind, text,
        does=_text(table, "does", where, f"{kind} {text}".splitlines()[0][:60]),
        content=content,
        mode=_text(table, "mode", where, ""),
        needs=needs,
        narrow=_text(table, "narrow", where, ""),
        seconds=_seconds(table.get("seconds", 0.0), where),
        chore=table.get("chore", False) is True,
        names=tuple(map(str, table.get("names", ()))) or (paths_in(text) if kind == "run" else (text,)),
    )  # fmt: skip


def _text(table: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = table.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise UserError(f"{where}.{name} must be a text")
    return value


def _pattern(text: str, where: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(f"{where}.needs is no regular expression: {error}") from error
    return text


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 3600:
        raise UserError(f"{where}.seconds must be a number between 0 and 3600")
    return float(value)
