"""The strongest cage: bubblewrap. Own user, mount, pid, net, ipc, uts and cgroup namespaces, no capability."""

from __future__ import annotations

import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from modularrsi.cage.base import CageSpec
from modularrsi.cage.python import LIBRARY_INSIDE
from modularrsi.sandbox.base import Availability

_FIX = "sudo apt-get install bubblewrap   (or your distribution's package of that name)"


class BubblewrapCage:
    """Root is an empty tmpfs; below it only what the spec names, read-only, a private /tmp, /dev and /proc."""

    kind = "bubblewrap"
    isolation = "bubblewrap: own user, mount, pid, network, ipc and uts namespaces; read-only files; no capabilities"

    def argv(self, spec: CageSpec) -> list[str]:
        binds: list[str] = []
        for host, inside in spec.readonly:
            binds += ["--ro-bind", str(host), inside]
        return [
            _bwrap(),
            *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *("--hostname", "worker", "--setenv", "LANG", "C.UTF-8", "--setenv", "HOME", "/tmp"),
            *binds,
            *("--proc", "/proc", "--dev", "/dev", "--size", str(spec.limits.file_bytes), "--tmpfs", "/tmp"),
            *("--remount-ro", "/", "--chdir", "/tmp", "--"),
            *spec.command,
        ]

    def library_path(self, library: Path) -> str:
        return LIBRARY_INSIDE

    def available(self) -> Availability:
        reason = _probe()
        return Availability(self.kind, not reason, reason or "works", _FIX if reason else "", self.isolation)


def _bwrap() -> str:
    return shutil.which("bwrap") or "bwrap"


@lru_cache(maxsize=1)
def _probe() -> str:
    """Why bubblewrap cannot be used here, "" when it can: it is started, not only looked for, because distributions
    forbid user namespaces in several ways that only show then."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    true = next((path for path in ("/usr/bin/true", "/bin/true") if Path(path).exists()), "/bin/true")
    command = [_bwrap(), "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", true]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return "bwrap did not answer within 10 s"
    return "" if done.returncode == 0 else f"bwrap fails: {done.stderr.strip().splitlines()[-1:] or 'no message'}"
