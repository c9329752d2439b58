"""One writer per run.

The kernel's file lock (flock) decides on one machine: it cannot outlive its process, so a killed owner never leaves
the run locked. The record in the file says who holds it, for the message; and its heartbeat decides between machines
that share the folder, where flock may not reach.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from modularrsi.errors import StoreError

HEARTBEAT_SEC = 10.0
STALE_SEC = 120.0
_RECORD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Owner:
    """`started` is the kernel's start time of the process (clock ticks since boot): a pid alone is used again."""

    pid: int
    started: int
    host: str
    boot: str

    @classmethod
    def this(cls) -> Owner:
        return cls(os.getpid(), _start_ticks(), socket.gethostname()[:64], _boot_id())


class WriterLock:
    """Held from construction to `release`. `took_over`: the owner that died without letting go, if there was one."""

    def __init__(self, path: Path, heartbeat_sec: float = HEARTBEAT_SEC, stale_sec: float = STALE_SEC) -> None:
        self._path = path
        self._descriptor = _open(path)
        try:
            self.took_over = self._claim(stale_sec)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._stop = threading.Event()
        self._beat = threading.Thread(target=self._beat_until_stopped, args=(heartbeat_sec,), daemon=True,
                                      name="store-heartbeat")
        self._beat.start()

    def release(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        self._beat.join()
        _write_record(self._descriptor, None)
        os.close(self._descriptor)

    def _claim(self, stale_sec: float) -> Owner | None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{self._path.parent}: {_who(_read_record(self._descriptor))} is writing this run; "
                             "wait for it to end, or stop it") from None
        except OSError as error:
            raise StoreError(f"{self._path}: this file system has no locks ({error.strerror}); "
                             "put the run's folder on a local disk") from error
        before = _read_record(self._descriptor)
        self._refuse_other_machine(before, stale_sec)
        _write_record(self._descriptor, Owner.this())
        return before

    def _refuse_other_machine(self, owner: Owner | None, stale_sec: float) -> None:
        mine = Owner.this()
        if owner is None or owner.host == mine.host or (owner.boot and owner.boot == mine.boot):
            return
        silent = time.time() - os.fstat(self._descriptor).st_mtime
        if silent < stale_sec:
            raise StoreError(f"{self._path.parent}: {_who(owner)} was writing this run {silent:.0f} s ago; "
                             f"if that machine is gone, try again in {stale_sec - silent:.0f} s")

    def _beat_until_stopped(self, every: float) -> None:
        while not self._stop.wait(every):
            with contextlib.suppress(OSError):
                os.utime(self._descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: cannot open: {error.strerror}") from error


def _write_record(descriptor: int, owner: Owner | None) -> None:
    """Always the same length in place, so that letting go works on a full disk."""
    text = json.dumps(asdict(owner)) if owner else ""
    try:
        os.pwrite(descriptor, text.encode("utf-8").ljust(_RECORD_BYTES), 0)
    except OSError as error:
        raise StoreError(f"cannot write the run's lock: {error.strerror}") from error


def _read_record(descriptor: int) -> Owner | None:
    try:
        fields = json.loads(os.pread(descriptor, _RECORD_BYTES, 0))
        return Owner(int(fields["pid"]), int(fields["started"]), str(fields["host"]), str(fields["boot"]))
    except (ValueError, KeyError, TypeError):
        return None


def _who(owner: Owner | None) -> str:
    return f"process {owner.pid} on {owner.host}" if owner else "another process"


def _start_ticks() -> int:
    """Field 22 of proc(5) `stat`; 0 where there is no /proc."""
    try:
        stat = Path("/proc/self/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
