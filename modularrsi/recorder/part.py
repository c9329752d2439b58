"""The record while it grows: one JSON object a line, on disk as soon as it is served.

A line that a kill has cut short is left out on reading; the lines before it are whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modularrsi.errors import StoreError

Line = dict[str, Any]


class PartFile:
    """Append-only. Raises StoreError when the disk refuses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise StoreError(f"{path}: the trajectory cannot be written: {error.strerror}") from error

    def write(self, kind: str, **fields: Any) -> None:
        line = {"kind": kind, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
        data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise StoreError(f"{self._path}: the trajectory cannot be written: {error.strerror}") from error
        self.size += len(data)

    def close(self) -> None:
        self._file.close()


def read_part(path: Path) -> Iterator[Line]:
    """The whole lines. Raises StoreError when the file cannot be read, or is damaged before its last line."""
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    return
                yield _line(path, number, data)
    except OSError as error:
        raise StoreError(f"{path}: the trajectory cannot be read: {error.strerror}") from error


def _line(path: Path, number: int, data: bytes) -> Line:
    try:
        line = json.loads(data)
    except ValueError as error:
        raise StoreError(f"{path}, line {number}: not JSON") from error
    if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
        raise StoreError(f"{path}, line {number}: not a line of a trajectory")
    return line
