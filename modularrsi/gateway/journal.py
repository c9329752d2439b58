"""The record of calls: what was sent, and what came back, before anyone acts on it.

A call is named by its scope (say, one rollout), its ordinal within it, and the digest of role, model, parameters and
messages. The digest is part of the name, so that a recording never answers a question that was not asked.

A `CallStart` is written before an attempt is sent, a `CallOutcome` before the reply is handed on. A start without an
outcome is a call that was under way when the engine died: it may have been paid, and the books keep its worst case.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol

from modularrsi.errors import UserError
from modularrsi.gateway.spending import Spending
from modularrsi.gateway.usage import NOT_REPORTED, TokenUsage, usage_from_json

OutcomeKind = Literal["reply", "truncated", "filtered", "overflow", "failed"]
Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class CallStart:
    """One attempt is about to be sent. `usd` None = the price is unknown. `elapsed`: seconds of `Ledger.elapsed`."""

    scope: str
    ordinal: int
    digest: str
    role: str
    model: str
    purpose: str
    attempt: int
    tokens: int
    usd: Decimal | None
    elapsed: float

    @property
    def key(self) -> Key:
        return self.scope, self.ordinal, self.digest


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended.

    `attempts` starts belong to it; `spending` is what all of them cost. `text`, `reasoning`, `usage`, `cost_usd`,
    `finish` and `model` are those of the reply, if there was one; `cause` and `message` say why there was none.
    """

    scope: str
    ordinal: int
    digest: str
    role: str
    kind: OutcomeKind
    attempts: int
    spending: Spending
    elapsed: float
    latency_sec: float
    model: str
    text: str = ""
    reasoning: str = ""
    usage: TokenUsage = NOT_REPORTED
    cost_usd: Decimal | None = None
    finish: str = ""
    cause: str = ""
    message: str = ""

    @property
    def key(self) -> Key:
        return self.scope, self.ordinal, self.digest


class Journal(Protocol):
    """Where calls are recorded. Every method returns only after what it was given is safe."""

    def lookup(self, scope: str, ordinal: int, digest: str) -> CallOutcome | None:
        """The outcome of this very call, the latest if there are several."""
        ...

    def begin(self, start: CallStart) -> None: ...

    def commit(self, outcome: CallOutcome) -> None: ...

    def history(self) -> Iterable[CallStart | CallOutcome]:
        """Everything in the order in which it was written."""
        ...


class MemoryJournal:
    """Forgets everything with the process: for tests and for runs that nobody resumes."""

    def __init__(self) -> None:
        self._lines: list[CallStart | CallOutcome] = []
        self._outcomes: dict[Key, CallOutcome] = {}

    def lookup(self, scope: str, ordinal: int, digest: str) -> CallOutcome | None:
        return self._outcomes.get((scope, ordinal, digest))

    def begin(self, start: CallStart) -> None:
        self._lines.append(start)

    def commit(self, outcome: CallOutcome) -> None:
        self._lines.append(outcome)
        self._outcomes[outcome.key] = outcome

    def history(self) -> Iterator[CallStart | CallOutcome]:
        return iter(list(self._lines))


class FileJournal:
    """One file, one JSON object a line, synced to disk. Only offsets are kept in memory. One writer at a time.

    A last line that a crash has torn is cut off on opening; damage elsewhere raises UserError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[Key, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.truncate(self._index())
        self._file.seek(0, os.SEEK_END)

    def lookup(self, scope: str, ordinal: int, digest: str) -> CallOutcome | None:
        offset = self._offsets.get((scope, ordinal, digest))
        if offset is None:
            return None
        with self._path.open("rb") as file:
            file.seek(offset)
            found = line_from_json(json.loads(file.readline()))
        return found if isinstance(found, CallOutcome) else None

    def begin(self, start: CallStart) -> None:
        self._write(start)

    def commit(self, outcome: CallOutcome) -> None:
        self._offsets[outcome.key] = self._write(outcome)

    def history(self) -> Iterator[CallStart | CallOutcome]:
        with self._path.open("rb") as file:
            for line in file:
                yield line_from_json(json.loads(line))

    def close(self) -> None:
        self._file.close()

    def _write(self, entry: CallStart | CallOutcome) -> int:
        offset = self._file.tell()
        self._file.write(json.dumps(line_to_json(entry), allow_nan=False).encode("ascii") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return offset

    def _index(self) -> int:
        """Note where each outcome is; the length of what is whole."""
        self._file.seek(0)
        end = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                entry = line_from_json(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{self._path}: line {number} is damaged ({error}); restore the file") from error
            if isinstance(entry, CallOutcome):
                self._offsets[entry.key] = end
            end += len(line)
        return end


def line_to_json(entry: CallStart | CallOutcome) -> dict[str, Any]:
    """As JSON, for any store. Money is text."""
    if isinstance(entry, CallStart):
        return {"type": "start", **asdict(entry), "usd": _to_text(entry.usd)}
    changed = {"spending": entry.spending.to_json(), "cost_usd": _to_text(entry.cost_usd)}
    return {"type": "outcome", **asdict(entry), **changed}


def line_from_json(raw: Mapping[str, Any]) -> CallStart | CallOutcome:
    """What `line_to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    if raw["type"] == "start":
        return CallStart(**{**_named(CallStart, raw), "usd": _from_text(raw["usd"])})
    changed = {
        "spending": Spending.from_json(raw["spending"]),
        "usage": usage_from_json(raw["usage"]),
        "cost_usd": _from_text(raw["cost_usd"]),
    }
    return CallOutcome(**{**_named(CallOutcome, raw), **changed})


def _named(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    return {entry.name: raw[entry.name] for entry in fields(kind) if entry.name in raw}


def _to_text(money: Decimal | None) -> str | None:
    return None if money is None else str(money)


def _from_text(money: str | None) -> Decimal | None:
    return None if money is None else Decimal(money)
