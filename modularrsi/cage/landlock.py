"""A cage of the kernel's own, for machines with neither bubblewrap nor Docker: Landlock, seccomp and rlimits.

The interpreter starts as an ordinary process with a cleared environment; its first code, which is ours, then takes away
what a worker must not have, for good: all files but those of the Python, of `harness` and of the library; every write;
TCP and, with the filter, every socket; every process, program and signal; every capability. Nothing needs to be
installed and no privilege is needed.

What it is not: a machine of its own. It has the host's process, IPC and user identity, only no way to act on them:
`/proc` is not among its files, signals and tracing are refused. `stat` and `readlink` stay possible on any path that
the user can reach (landlock(7), "Limitations"): the worker can learn that a file exists, its size and its times.

A namespace made with `unshare` instead would be bubblewrap written again in shell: where the kernel lets a user make
one, bubblewrap works as well, and where it does not (a container, a hardened distribution) Landlock still does.

Source of numbers and structures: landlock(7), <linux/landlock.h>.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from modularrsi.cage.base import READY, CageSpec
from modularrsi.cage.open import CLEARED
from modularrsi.cage.python import Inside, harness_folder, host_python, python_files, worker_command
from modularrsi.cage.seccomp import worker_filter
from modularrsi.sandbox.base import Availability

_CREATE_RULESET, _VERSION = 444, 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
# How many access rights to files each ABI knows: they are numbered from bit 0. 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_RIGHTS = 0b11  # ABI 4: bind and connect of TCP
_SCOPES = 0b11  # ABI 6: abstract unix sockets, signals
_FIX = "boot a Linux >= 5.13 with `landlock` in its list of security modules (kernel parameter lsm=), or install "
_FIX += "bubblewrap"


class LandlockCage:
    """Everything lies where it lies on the host, and only the files of the ruleset can be opened."""

    kind = "landlock"
    broken_status: int | None = None
    own_limits = False

    @property
    def isolation(self) -> str:
        return (
            f"landlock (ABI {abi()}) + seccomp + rlimits: opens only the files of Python, harness and library, "
            "read-only; no network, process, signal or capability; no process or user namespace of its own, and it "
            "can tell whether a path exists"
        )

    def argv(self, spec: CageSpec) -> list[str]:
        readable = [*python_files(), harness_folder(), spec.library]
        inside = Inside(
            host_python(),
            str(harness_folder()),
            seccomp=worker_filter(beside_others=True, truncation=abi() >= 3),
            landlock={"ruleset": ruleset(abi()).hex(), "rules": rules(readable)},
            parent=os.getpid(),
        )
        return [*CLEARED, *worker_command(spec, inside)]

    def library_path(self, library: Path) -> str:
        return str(library)

    def available(self) -> Availability:
        reason = _probe()
        return Availability(self.kind, not reason, reason or "works", _FIX if reason else "", self.isolation)

    def sweep(self) -> list[str]:
        """Nothing: the worker dies with the engine."""
        return []


def ruleset(version: int) -> bytes:
    """`struct landlock_ruleset_attr` that forbids all that ABI `version` can forbid; older ones end earlier."""
    files = (1 << _FILE_RIGHTS[min(version, 5)]) - 1
    if version < 4:
        return struct.pack("<Q", files)
    if version < 6:
        return struct.pack("<QQ", files, _NET_RIGHTS)
    return struct.pack("<QQQ", files, _NET_RIGHTS, _SCOPES)


def rules(readable: Iterable[Path]) -> list[tuple[str, int]]:
    """(path, access rights): reading below each path, and the null device, which the worker puts on its streams."""
    granted = [(str(path), _READ_FILE | (_READ_DIR if path.is_dir() else 0)) for path in readable]
    return [*granted, (os.devnull, _READ_FILE | _WRITE_FILE)]


@lru_cache(maxsize=1)
def abi() -> int:
    """The Landlock ABI of this kernel, 0 when it has none or it is switched off. Asking restricts nothing."""
    if sys.platform != "linux":
        return 0
    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    return max(0, call(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_long(_VERSION)))


# What a worker must find out when the cage stands: a file of its own opens, one beside it does not.
_TRY = """
import os
open(os.__file__).close()
try:
    open("/proc/self/environ").close()
except PermissionError:
    print("caged")
"""


@lru_cache(maxsize=1)
def _probe() -> str:
    """Why Landlock cannot be used here, "" when it can: a worker is started, because a container's own system-call
    filter may refuse what the kernel offers."""
    if sys.platform != "linux":
        return "Landlock is a part of Linux"
    if not abi():
        return "this kernel has no Landlock, or it is switched off"
    if worker_filter() is None:
        return "there is no system-call filter for this processor"
    command = LandlockCage().argv(CageSpec("probe", harness_folder(), program=_TRY))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "a worker did not start within 20 s"
    if done.returncode == 0 and done.stdout == READY + "caged\n":
        return ""
    return f"a worker fails: {(done.stderr.strip().splitlines() or ['it was not caged'])[-1]}"
