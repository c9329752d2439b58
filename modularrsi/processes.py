"""Ending processes surely: trees, groups, and everything that carries a mark.

A process is named by pid *and* start time (`/proc/<pid>/stat`, field 22: proc(5)), so that a recycled pid is never
killed. Where the kernel has pidfds (Linux 5.3) the signal goes through one, which closes the gap between looking and
killing. Without `/proc` (macOS) only groups can be ended; the functions then say so by returning nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_POLL_SEC = 0.005


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for as long as it lives: `start` is in clock ticks since boot."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What `/proc/<pid>/stat` says. `tpgid` is the foreground group of its terminal, -1 without one."""

    pid: int
    state: str
    ppid: int
    pgrp: int
    session: int
    tty: int
    tpgid: int
    start: int

    @property
    def process(self) -> Process:
        return Process(self.pid, self.start)


def read_stat(pid: int) -> Stat | None:
    """The process's stat, or None when there is none (gone, or no `/proc`)."""
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses: everything after the last one counts.
    fields = raw[raw.rindex(b")") + 2 :].split()
    state = fields[0].decode("ascii", "replace")
    ppid, pgrp, session, tty, tpgid = (int(field) for field in fields[1:6])
    return Stat(pid, state, ppid, pgrp, session, tty, tpgid, int(fields[19]))


def identify(pid: int) -> Process | None:
    """The process that has this pid now; zombies count as gone."""
    stat = read_stat(pid)
    return stat.process if stat is not None and stat.state not in "ZX" else None


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def send(process: Process, signum: int) -> bool:
    """Signal exactly this process; False when it is gone. Raises PermissionError when it is not ours to signal."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        return _send_plainly(process, signum)
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _send_plainly(process: Process, signum: int) -> bool:
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, signum)
    except ProcessLookupError:
        return False
    return True


def snapshot() -> list[Stat]:
    """Every process that can be seen, in no order."""
    return [stat for pid in _pids() if (stat := read_stat(pid)) is not None]


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def descendants(root: int, stats: Iterable[Stat] | None = None) -> list[Process]:
    """Children, grandchildren … of `root`, without itself; what was re-parented elsewhere is not found."""
    children: dict[int, list[Stat]] = {}
    for stat in snapshot() if stats is None else stats:
        children.setdefault(stat.ppid, []).append(stat)
    found: list[Process] = []
    queue = [root]
    while queue:
        for stat in children.get(queue.pop(), ()):
            queue.append(stat.pid)
            if stat.state not in "ZX":
                found.append(stat.process)
    return found


def marked(mark: bytes) -> list[Process]:
    """Processes whose environment, as it was at their last execve, holds `mark` (`NAME=value`) as one entry."""
    found: list[Process] = []
    for pid in _pids():
        process = identify(pid)
        if process is not None and mark in _environ(pid):
            found.append(process)
    return found


def _environ(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill_tree(root: Process, timeout_sec: float = 5.0) -> list[Process]:
    """Kill `root` and everything below it; returns what still lives when the time is up (normally nothing).

    The tree is stopped before it is killed: a process that forks while it is being hunted cannot outrun the hunt.
    """

    def members() -> list[Process]:
        below = descendants(root.pid)
        return [root, *below] if is_alive(root) else below

    return kill_all(members, timeout_sec)


def kill_all(members: Callable[[], list[Process]], timeout_sec: float = 5.0) -> list[Process]:
    """Stop, then kill, all that `members()` names, asked again until nobody new turns up. Returns the survivors."""
    deadline = time.monotonic() + timeout_sec
    own = os.getpid()
    frozen: set[Process] = set()
    while time.monotonic() < deadline:
        fresh = [process for process in members() if process.pid != own and process not in frozen]
        if not fresh:
            break
        _signal_each(fresh, signal.SIGSTOP)
        frozen.update(fresh)
    _signal_each(frozen, signal.SIGKILL)
    return wait_gone(frozen, max(0.5, deadline - time.monotonic()))


def _signal_each(processes: Iterable[Process], signum: int) -> None:
    for process in processes:
        # Not ours to signal (another user's): it will be among the survivors, which is what the caller looks at.
        with contextlib.suppress(PermissionError):
            send(process, signum)


def wait_gone(processes: Iterable[Process], timeout_sec: float) -> list[Process]:
    """Wait until all are gone (zombies are); returns those that are not when the time is up."""
    deadline = time.monotonic() + timeout_sec
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SEC)
        left = [process for process in left if is_alive(process)]
    return left


def kill_group(pgid: int) -> bool:
    """SIGKILL a whole process group; False when it has no members. Never the caller's own group (ValueError)."""
    if pgid <= 1 or pgid == os.getpgrp():
        raise ValueError(f"refusing to kill process group {pgid}")
    try:
        os.killpg(pgid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def session_members(session: int) -> list[Process]:
    """All processes of one session (`setsid`), zombies left out."""
    return [stat.process for stat in snapshot() if stat.session == session and stat.state not in "ZX"]
