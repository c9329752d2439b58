"""No walls: the worker is an ordinary child process with a cleared environment. Only ever on an explicit flag.

What still holds: no key in its environment, hard rlimits, and the system-call filter (no process, program or socket).
What does not: it reads every file that the engine's user can read, tests and store included.
"""

from __future__ import annotations

from pathlib import Path

from modularrsi.cage.base import CageSpec
from modularrsi.cage.python import HARNESS_INSIDE
from modularrsi.sandbox.base import Availability


class NoCage:
    """Inside paths of the spec are replaced by the host paths they stand for."""

    kind = "none"
    isolation = "none: the worker can read this user's files; only rlimits and a system-call filter hold it"

    def argv(self, spec: CageSpec) -> list[str]:
        places = {inside: host for host, inside in spec.readonly}
        parent = str(Path(places[HARNESS_INSIDE]).parent)
        boot = [word.replace("/cage/lib", parent) for word in spec.command]
        return ["/usr/bin/env", "-i", "LANG=C.UTF-8", "HOME=/nonexistent", *boot]

    def library_path(self, library: Path) -> str:
        """Where the worker finds the library: there is no inside."""
        return str(library)

    def available(self) -> Availability:
        return Availability(self.kind, True, "works, and protects nothing", "", self.isolation)


