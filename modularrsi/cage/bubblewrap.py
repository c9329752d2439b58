"""The strongest cage: bubblewrap. Own user, mount, pid, net, ipc, uts and cgroup namespaces, no capability."""

from __future__ import annotations

import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from modularrsi.cage.base import CageSpec
from modularrsi.cage.python import Inside, harness_folder, host_python, python_files, worker_command
from modularrsi.sandbox.base import Availability
from modularrsi.sandbox.bwrap_probe import fix

_HARNESS, _LIBRARY = "/cage/lib/harness", "/cage/library"
_INSTALL = "sudo apt-get install bubblewrap   (or your distribution's package of that name)"


class BubblewrapCage:
    """Root is an empty tmpfs; below it, read-only, what a worker reads, /dev and /proc; only a private /tmp can be
    written."""

    kind = "bubblewrap"
    broken_status: int | None = None
    own_limits = False
    isolation = "bubblewrap: own user, mount, pid, network, ipc and uts namespaces; read-only files; no capabilities"

    def argv(self, spec: CageSpec) -> list[str]:
        inside = Inside(host_python(), _HARNESS, folder="/tmp", own_users=True)
        places = {**{str(path): path for path in python_files()}, _HARNESS: harness_folder(), _LIBRARY: spec.library}
        binds = [word for place, path in places.items() for word in ("--ro-bind", str(path), place)]
        return [
            _bwrap(),
            *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *("--hostname", "worker", "--setenv", "LANG", "C.UTF-8", "--setenv", "HOME", "/tmp"),
            *binds,
            *("--proc", "/proc", "--dev", "/dev", "--size", str(spec.limits.file_bytes), "--tmpfs", "/tmp"),
            *("--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/tmp", "--"),
            *worker_command(spec, inside),
        ]

    def library_path(self, library: Path) -> str:
        return _LIBRARY

    def available(self) -> Availability:
        reason = _probe()
        mend = "" if not reason else fix() if shutil.which("bwrap") else _INSTALL
        return Availability(self.kind, not reason, reason or "works", mend, self.isolation)

    def sweep(self) -> list[str]:
        """Nothing: what runs inside dies with its parent."""
        return []


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
    return "" if done.returncode == 0 else f"bwrap fails: {done.stderr.strip()[-300:] or 'no message'}"
