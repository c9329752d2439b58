"""A control group for one sandbox or worker: limits that hold for all its processes together, and a sure kill.

Version 1 (one tree per controller: memory, pids, cpu) where those are mounted and writable, version 2 (one tree)
where it is delegated to this user, else none, and `support` says why. Rules: the kernel's
`Documentation/admin-guide/cgroup-v1` and `cgroup-v2.rst`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modularrsi.processes import Process, identify, send

Version = Literal["v1", "v2", "none"]
CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
_POLL_SEC = 0.005


@dataclass(frozen=True, slots=True)
class Limits:
    """None = no limit. `cpus` is a share of time (0.5 = half of one processor)."""

    memory_mb: int | None = None
    pids: int | None = None
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """What this machine offers. `parents`: controller → folder in which groups can be made (v2: all the same)."""

    version: Version
    parents: dict[str, Path]
    reason: str = ""

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self.parents)

    @property
    def usable(self) -> bool:
        """Memory and process limits at least: without those two a group protects nobody."""
        return {"memory", "pids"} <= self.parents.keys()


def support(mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")) -> Support:
    """Find out where this process may make groups (version 2: asks a group of ours to pass its controllers on)."""
    try:
        mount_lines, own_lines = mounts.read_text().splitlines(), own.read_text().splitlines()
    except OSError as error:
        return Support("none", {}, f"control groups cannot be looked up: {error}")
    first = _support_v1(mount_lines, own_lines)
    if first.usable:
        return first
    second = _support_v2(mount_lines, own_lines)
    if second.usable:
        return second
    return Support("none", {}, first.reason or second.reason or "no control group is writable for this user")


def _support_v1(mounts: list[str], own: list[str]) -> Support:
    roots = {c: Path(f[1]) for f in map(str.split, mounts) if f[2] == "cgroup" for c in f[3].split(",")}
    places = {c: path for line in own for c in line.split(":", 2)[1].split(",") if (path := line.split(":", 2)[2])}
    parents: dict[str, Path] = {}
    for controller in CONTROLLERS:
        if controller in roots:
            # Inside a container the path in /proc/self/cgroup may lie outside what is mounted: then use the mount.
            here = roots[controller] / places.get(controller, "/").lstrip("/")
            parent = here if here.is_dir() else roots[controller]
            if os.access(parent, os.W_OK | os.X_OK):
                parents[controller] = parent
    found = roots.keys() & set(CONTROLLERS)
    reason = "control groups (version 1) are mounted but not writable" if found and not parents else ""
    return Support("v1", parents, reason)


def _support_v2(mounts: list[str], own: list[str]) -> Support:
    root = next((Path(f[1]) for f in map(str.split, mounts) if f[2] == "cgroup2"), None)
    place = next((line[3:] for line in own if line.startswith("0::")), None)
    if root is None or place is None:
        return Support("v2", {}, "")
    here = root / place.lstrip("/")
    for folder in (here, *here.parents):
        if not (folder == root or folder.is_relative_to(root)):
            break
        granted = _granted(folder)
        if {"memory", "pids"} <= granted and _delegated(folder):
            return Support("v2", {c: folder for c in CONTROLLERS if c in granted})
    return Support("v2", {}, "control groups (version 2) are not delegated to this user with memory and pids")


def _granted(folder: Path) -> set[str]:
    """Controllers that children of `folder` get; asks for the missing ones, which only works in an inner group."""
    control = folder / "cgroup.subtree_control"
    try:
        offered = set((folder / "cgroup.controllers").read_text().split())
        given = set(control.read_text().split())
        wanted = [c for c in CONTROLLERS if c in offered - given]
        if not given >= {"memory", "pids"} and wanted and os.access(control, os.W_OK):
            with contextlib.suppress(OSError):
                control.write_text(" ".join("+" + c for c in wanted))
        return set(control.read_text().split())
    except OSError:
        return set()


def _delegated(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One group: a folder per controller (v1), or one folder (v2)."""

    version: Version
    folders: tuple[Path, ...]

    @classmethod
    def create(cls, name: str, limits: Limits, where: Support) -> Cgroup:
        """Make the group and set its limits. Raises OSError; whatever was made before is then removed again."""
        names = {parent / name: controller for controller, parent in where.parents.items()}
        group = cls(where.version, tuple(names))
        try:
            for folder in group.folders:
                folder.mkdir(exist_ok=True)
            for file, text in _settings(group, limits, where):
                file.write_text(text)
        except OSError:
            group.destroy()
            raise
        return group

    @property
    def entry_files(self) -> tuple[Path, ...]:
        """Files to which a process writes `0` to enter the group (one per folder)."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def add(self, pid: int) -> None:
        for file in self.entry_files:
            file.write_text(str(pid))

    def pids(self) -> set[int]:
        found: set[int] = set()
        for file in self.entry_files:
            with contextlib.suppress(OSError):
                found.update(int(word) for word in file.read_text().split())
        return found

    def kill(self) -> None:
        """SIGKILL every member once; `destroy` repeats it until none is left."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1")  # version 2, Linux 5.14
        for process in self._members():
            with contextlib.suppress(PermissionError):
                send(process, signal.SIGKILL)

    def _members(self) -> list[Process]:
        return [process for pid in self.pids() if (process := identify(pid)) is not None]

    def destroy(self, timeout_sec: float = 5.0) -> bool:
        """Kill all members and remove the folders; False when something resisted until the time was up."""
        deadline = time.monotonic() + timeout_sec
        while True:
            if all(_remove(folder) for folder in self.folders):
                return True
            if time.monotonic() > deadline:
                return False
            self.kill()
            time.sleep(_POLL_SEC)

    def oom_kills(self) -> int:
        """How many members the kernel killed for want of memory."""
        for folder in self.folders:
            for file in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / file).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _settings(group: Cgroup, limits: Limits, where: Support) -> list[tuple[Path, str]]:
    """The files to write, in order, with their values."""
    of = {c: folder for folder in group.folders for c, parent in where.parents.items() if folder.parent == parent}
    first = where.version == "v1"
    settings: list[tuple[Path, str]] = []
    if limits.memory_mb is not None and "memory" in of:
        size = str(limits.memory_mb * 1024 * 1024)
        settings.append((of["memory"] / ("memory.limit_in_bytes" if first else "memory.max"), size))
        swap = of["memory"] / ("memory.memsw.limit_in_bytes" if first else "memory.swap.max")
        if swap.exists():
            settings.append((swap, size if first else "0"))
    if limits.pids is not None and "pids" in of:
        settings.append((of["pids"] / "pids.max", str(limits.pids)))
    if limits.cpus is not None and "cpu" in of:
        quota = str(max(1000, int(limits.cpus * _PERIOD_US)))
        if first:
            settings.append((of["cpu"] / "cpu.cfs_period_us", str(_PERIOD_US)))
            settings.append((of["cpu"] / "cpu.cfs_quota_us", quota))
        else:
            settings.append((of["cpu"] / "cpu.max", f"{quota} {_PERIOD_US}"))
    return settings
