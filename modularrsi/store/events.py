"""One event, one line, one link of a hash chain.

A line is a JSON object whose last field is `hash`: the SHA-256 of the line's own bytes without that field. Hashing
bytes rather than values means that no change of a line, not even one that leaves its meaning alone, goes unnoticed.

    {"at":"2026-01-31T12:00:00.000000Z","data":{…},"prev":"<hash of line 6>","seq":7,"type":"call.done","hash":"…"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from modularrsi.digest import canonical_json, digest_bytes
from modularrsi.errors import StoreError

GENESIS = "0" * 64
MAX_LINE_BYTES = 16 * 1024 * 1024

_HASH_FIELD = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_HASH_FIELD_BYTES = len(b',"hash":""}') + 64
_FIELDS = {"at": str, "data": dict, "prev": str, "seq": int, "type": str, "hash": str}


class BadLine(ValueError):
    """These bytes are not an event. `damaged`: they are a whole line that was changed, not one cut short."""

    def __init__(self, reason: str, damaged: bool = False) -> None:
        super().__init__(reason)
        self.damaged = damaged


@dataclass(frozen=True, slots=True)
class Event:
    """`seq` counts from 1, `at` is UTC, `data` is what was appended, as JSON gives it back; `offset` is where its line
    begins in the file."""

    seq: int
    at: str
    type: str
    data: dict[str, Any]
    prev: str
    hash: str
    offset: int = field(default=-1, compare=False)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encode(seq: int, prev: str, at: str, kind: str, data: Mapping[str, Any]) -> tuple[bytes, str]:
    """`(line with its newline, hash)`. Raises StoreError for data that is not JSON, or too much of it."""
    try:
        body = canonical_json({"at": at, "data": dict(data), "prev": prev, "seq": seq, "type": kind})
    except ValueError as error:
        raise StoreError(f"event {kind!r}: {error}") from error
    digest = digest_bytes(body)
    line = body[:-1] + b',"hash":"' + digest.encode("ascii") + b'"}\n'
    if len(line) > MAX_LINE_BYTES:
        raise StoreError(f"event {kind!r} takes {len(line)} bytes; above {MAX_LINE_BYTES} use a blob")
    return line, digest


def decode(line: bytes, offset: int = -1) -> Event:
    """The event of one line without its newline. Raises BadLine."""
    fields = _fields(line)
    if not intact(line):
        raise BadLine("its hash does not match its bytes", damaged=True)
    return Event(fields["seq"], fields["at"], fields["type"], fields["data"], fields["prev"], fields["hash"], offset)


def follow(event: Event, seq: int, prev: str) -> None:
    """Raises BadLine unless `event` is the one that comes after event number `seq` with hash `prev`."""
    if event.seq != seq + 1:
        raise BadLine(f"it is event {event.seq} where {seq + 1} was expected", damaged=True)
    if event.prev != prev:
        raise BadLine("it does not continue the line before it", damaged=True)


def intact(line: bytes) -> bool:
    match = _HASH_FIELD.fullmatch(line, len(line) - _HASH_FIELD_BYTES) if len(line) > _HASH_FIELD_BYTES else None
    if match is None:
        return False
    body = line[: match.start()] + b"}"
    return digest_bytes(body).encode("ascii") == match[1]


def whole_events(region: bytes, limit: int = 64) -> list[tuple[int, int]]:
    """Where whole events lie in bytes that do not divide into good lines: `(start, end)`, newline excluded.

    Only used on a damaged tail, to tell a cut (nothing whole is left in it) from damage in the middle.
    """
    starts = [match.start() for match in re.finditer(rb'\{"at":"', region)]
    found: list[tuple[int, int]] = []
    for match in _HASH_FIELD.finditer(region):
        before = [start for start in starts if start < match.start()][-limit:]
        start = next((start for start in before if intact(region[start : match.end()])), None)
        if start is not None:
            found.append((start, match.end()))
    return found


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadLine("it is not JSON") from error
    if not isinstance(fields, dict) or fields.keys() != _FIELDS.keys():
        raise BadLine("it is not an event")
    for name, kind in _FIELDS.items():
        if not isinstance(fields[name], kind) or isinstance(fields[name], bool):
            raise BadLine(f"its field {name!r} has the wrong type", damaged=True)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
