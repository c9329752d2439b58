"""The append-only file of events: written by one process, read by any, whole again after a crash at any byte.

What a crash can leave is a last line that was cut short (or, after a power cut, filled with garbage). That tail is
moved aside into `torn/` when the log is next opened for writing. A bad line with good events after it is not a crash
but damage, and no code here will ever mend it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from modularrsi.errors import StoreError
from modularrsi.store import events
from modularrsi.store.events import BadLine, Event
from modularrsi.store.files import sync_folder, write_new

_NO_NEWLINE = "the newline after it is missing"
_MAX_TAIL_BYTES = 4 * events.MAX_LINE_BYTES  # no crash leaves more: one line at a time is written


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the good part of a log ends, what lies beyond it, and why that is not good ("" for a clean log)."""

    seq: int
    hash: str
    offset: int
    lines: int
    rest: bytes = b""
    reason: str = ""
    damaged: bool = False


def scan(path: Path, tail: list[Tail] | None = None) -> Iterator[Event]:
    """The good events from the start on. It stops at the first bad or unfinished line; `tail` receives where."""
    end = Tail(0, events.GENESIS, 0, 0)
    with path.open("rb") as file:
        while line := file.readline(events.MAX_LINE_BYTES):
            try:
                event = _next(line, end)
            except BadLine as error:
                file.seek(end.offset)
                rest = file.read(_MAX_TAIL_BYTES + 1)
                if not line.endswith(b"\n") and b"\n" in rest[: events.MAX_LINE_BYTES]:
                    file.seek(end.offset)  # the writer was in the middle of this line, and has finished it since
                    continue
                damaged = error.damaged or len(rest) > _MAX_TAIL_BYTES
                end = replace(end, rest=rest, reason=str(error), damaged=damaged)
                break
            end = Tail(event.seq, event.hash, end.offset + len(line), end.lines + 1)
            yield event
    if tail is not None:
        tail.append(end)


def _next(line: bytes, end: Tail) -> Event:
    if not line.endswith(b"\n"):
        raise BadLine("it is cut short")
    event = events.decode(line[:-1], end.offset)
    events.follow(event, end.seq, end.hash)
    return event


def read_event(path: Path, offset: int) -> Event:
    """The event whose line begins at `offset`. Raises StoreError when none does any more."""
    with path.open("rb") as file:
        file.seek(offset)
        line = file.readline(events.MAX_LINE_BYTES)
    try:
        return events.decode(line.removesuffix(b"\n"), offset)
    except BadLine as error:
        raise StoreError(f"{path}, byte {offset}: {error}; the log was changed after it was written") from error


def find_tail(path: Path) -> Tail:
    """Read the whole log. Raises StoreError for damage that is not a torn tail, naming the line."""
    found: list[Tail] = []
    for _ in scan(path, found):
        pass
    return judge(path, found[0])


def judge(path: Path, tail: Tail) -> Tail:
    """`tail`, with its last event when only that one's newline is missing. Raises StoreError for what is no crash's."""
    whole = events.whole_events(tail.rest)
    try:
        if len(whole) == 1 and whole[0][0] == 0:
            return _with_last_event(tail, whole[0][1])
        if tail.damaged or whole:
            raise BadLine(tail.reason)
    except BadLine as error:
        raise StoreError(f"{path}, line {tail.lines + 1}: {error}; the log was changed after it was written. "
                         "Restore the file from a copy, or start a new run") from error
    return tail


def _with_last_event(tail: Tail, end: int) -> Tail:
    event = events.decode(tail.rest[:end])
    events.follow(event, tail.seq, tail.hash)
    return Tail(event.seq, event.hash, tail.offset + end, tail.lines + 1, tail.rest[end:], _NO_NEWLINE)


class EventLog:
    """The writing end. Thread-safe; one per run folder (see `lock.py`)."""

    def __init__(self, path: Path, torn: Path, clock: Callable[[], str] = events.now) -> None:
        self._path, self._clock = path, clock
        self._write_lock, self._sync_lock = threading.Lock(), threading.Lock()
        if not path.exists():
            write_new(path, b"")
        tail = find_tail(path)
        self._file: BinaryIO = path.open("r+b", buffering=0)
        if tail.reason:
            self._repair(tail, torn)
        self.seq, self._hash, self._size = tail.seq, tail.hash, os.fstat(self._file.fileno()).st_size
        self._synced, self._broken = -1, ""  # what a killed writer left may not be on the disk yet

    def append(self, kind: str, data: Mapping[str, Any], durable: bool = False) -> Event:
        """Add one event. `durable`: it is on the disk when this returns; otherwise it survives a kill of the process
        but not of the machine. Raises StoreError; the log is then as it was before."""
        with self._write_lock:
            self._check_usable()
            at, previous = self._clock(), self._hash
            line, digest = events.encode(self.seq + 1, previous, at, kind, data)
            offset = self._size
            self._write(line)
            self.seq, self._hash = self.seq + 1, digest
            event = events.decode(line[:-1], offset)
        if durable:
            self.commit()
        return event

    def commit(self) -> None:
        """Everything appended so far is on the disk when this returns. Threads that wait share one fsync."""
        wanted = self.seq
        with self._sync_lock:
            if self._synced >= wanted:
                return
            self._check_usable()
            reached = self.seq
            try:
                os.fsync(self._file.fileno())
            except OSError as error:  # after a failed fsync the kernel may have dropped pages: only a reopen can tell
                self._broken = f"fsync failed: {error.strerror}"
                raise StoreError(f"{self._path}: {self._broken}; open the run again") from error
            self._synced = reached

    def close(self) -> None:
        try:
            if not self._broken:
                self.commit()
        finally:
            self._file.close()

    def _check_usable(self) -> None:
        if self._file.closed:
            raise StoreError(f"{self._path}: the log is closed")
        if self._broken:
            raise StoreError(f"{self._path}: {self._broken}; open the run again")

    def _write(self, line: bytes) -> None:
        try:
            self._file.seek(self._size)
            written = self._file.write(line) or 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._take_back()
            raise StoreError(f"{self._path}: cannot write: {error.strerror}") from error
        self._size += len(line)

    def _take_back(self) -> None:
        try:
            self._file.truncate(self._size)
        except OSError as error:
            self._broken = f"a half-written line could not be taken back: {error.strerror}"

    def _repair(self, tail: Tail, torn: Path) -> None:
        """Keep the cut bytes first, then cut: a crash in between loses nothing and repeats the repair."""
        if tail.rest:
            write_new(torn / f"after-{tail.seq}-{len(tail.rest)}-{events.now().replace(':', '')}.bin", tail.rest)
        try:
            self._file.truncate(tail.offset)
            if tail.reason == _NO_NEWLINE:
                self._file.seek(tail.offset)
                self._file.write(b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(f"{self._path}: cannot repair its torn end: {error.strerror}") from error
        sync_folder(self._path.parent)
