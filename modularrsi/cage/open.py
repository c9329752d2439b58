"""No walls: the worker is an ordinary child process with a cleared environment. Only ever on an explicit flag.

What still holds: no key in its environment, hard rlimits, no capability, and on Linux the system-call filter (no
process, program, socket or signal). What does not: it reads every file that the engine's user can read, tests and store
included, and writes where that user may.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from modularrsi.cage.base import CageSpec
from modularrsi.cage.python import Inside, harness_folder, host_python, worker_command
from modularrsi.cage.seccomp import worker_filter
from modularrsi.sandbox.base import Availability

CLEARED = ("/usr/bin/env", "-i", "LANG=C.UTF-8", "HOME=/nonexistent")


class NoCage:
    """Everything lies where it lies on the host."""

    kind = "none"
    broken_status: int | None = None
    own_limits = False

    @property
    def isolation(self) -> str:
        held = "rlimits and a system-call filter" if worker_filter() else "rlimits"
        return f"none: the worker can read and write this user's files; only {held} hold it"

    def argv(self, spec: CageSpec) -> list[str]:
        parent = os.getpid() if sys.platform == "linux" else 0
        seccomp = worker_filter(beside_others=True)
        inside = Inside(host_python(), str(harness_folder()), seccomp=seccomp, parent=parent)
        return [*CLEARED, *worker_command(spec, inside)]

    def library_path(self, library: Path) -> str:
        """Where the worker finds the library: there is no inside."""
        return str(library)

    def available(self) -> Availability:
        return Availability(self.kind, True, "works, and protects nothing", "", self.isolation)

    def sweep(self) -> list[str]:
        """Nothing: the worker dies with the engine on Linux, and elsewhere ends when its input does."""
        return []
