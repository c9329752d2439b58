"""The folder of one run: `events.jsonl`, `blobs/`, `lock`, and `torn/` once a crash has cut a line.

State is a fold over the events, so a reader needs nothing but the files, and may read while the writer writes. The
index that answers questions over many rollouts lives beside them and is rebuilt from them.

A blob is referred to from an event's data under the key `blob`, or a key that ends in `_blob` (one digest or a list).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from modularrsi.errors import StoreError
from modularrsi.store.blobs import Blobs
from modularrsi.store.events import Event
from modularrsi.store.files import make_folder
from modularrsi.store.lock import Owner, WriterLock
from modularrsi.store.log import EventLog, Tail, judge, read_event, scan

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that `verify` found: where (a file and line, or a blob's digest) and what."""

    where: str
    message: str


class RunReader:
    """Read-only access. Raises StoreError when `folder` holds no run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = Blobs(folder / "blobs")
        self._log_path = folder / "events.jsonl"
        if not self._log_path.is_file():
            raise StoreError(f"{folder} holds no run (there is no events.jsonl in it)")

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events with a number above `after`, each checked against the chain. An unfinished last line is left out.

        Raises StoreError when the log is damaged before its end.
        """
        tail: list[Tail] = []
        for event in scan(self._log_path, tail):
            if event.seq > after:
                yield event
        judge(self._log_path, tail[0])

    def event_at(self, offset: int) -> Event:
        """The event with this `offset`, read again; its hash is checked, its place in the chain is not."""
        return read_event(self._log_path, offset)

    def fold(self, reducer: Callable[[State, Event], State], state: State, after: int = 0) -> State:
        for event in self.events(after):
            state = reducer(state, event)
        return state

    def verify(self) -> list[Problem]:
        """Recompute the whole chain and the digest of every blob; every blob that an event names must be there."""
        problems: list[Problem] = []
        named: dict[str, int] = {}
        tail: list[Tail] = []
        for event in scan(self._log_path, tail):
            for digest in blob_references(event.data):
                named.setdefault(digest, event.seq)
        if tail[0].reason:
            problems.append(Problem(f"events.jsonl, line {tail[0].lines + 1}", tail[0].reason))
        stored = set(self.blobs)
        for digest in sorted(stored):
            problems += self._check_blob(digest)
        problems += [Problem(digest, f"event {seq} names this blob, and it is missing")
                     for digest, seq in named.items() if digest not in stored]
        return problems

    def _check_blob(self, digest: str) -> list[Problem]:
        try:
            self.blobs.get(digest)
        except StoreError as error:
            return [Problem(digest, str(error))]
        return []


class RunStore(RunReader):
    """The one writer of a run. Opening it creates the folder, takes the lock and repairs a torn end.

    Raises StoreError when another process writes the run, when the log is damaged, when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        try:
            make_folder(folder / "blobs")
        except OSError as error:
            raise StoreError(f"{folder}: cannot make the run's folder: {error.strerror}") from error
        self._lock = WriterLock(folder / "lock")
        try:
            self._log = EventLog(folder / "events.jsonl", folder / "torn")
            super().__init__(folder)
            self.blobs.sweep()
        except BaseException:
            self._lock.release()
            raise

    @property
    def seq(self) -> int:
        """The number of the last event; 0 for a new run."""
        return self._log.seq

    @property
    def took_over(self) -> Owner | None:
        """The writer that died without closing this run, if the last one did."""
        return self._lock.took_over

    def append(self, kind: str, data: Mapping[str, Any], durable: bool = False) -> Event:
        """See `EventLog.append`. Blobs that `data` names must have been put before."""
        return self._log.append(kind, data, durable)

    def commit(self) -> None:
        self._log.commit()

    def close(self) -> None:
        try:
            self._log.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def blob_references(data: Any) -> Iterator[str]:
    """Every digest that `data` names under `blob` or `…_blob`, at any depth."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "blob" or key.endswith("_blob"):
                yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
            else:
                yield from blob_references(value)
    elif isinstance(data, list):
        for item in data:
            yield from blob_references(item)
