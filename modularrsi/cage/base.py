"""What a cage is: the walls around one worker, which runs code that a model wrote.

A worker needs a Python, the `harness` package and one library, all read-only, and its three standard streams. Nothing
else exists inside: no network, no key, no store, no task, no other process, no environment variable of the engine.
Kinds, strongest first, and how each is told apart in a certificate: see `modularrsi.cage.choose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modularrsi.sandbox.base import Availability

WORKER = "import sys\nfrom harness.worker import main\nsys.exit(main())\n"

READY = "cage: ready\n"
"""The first line of a worker's output: all walls stand, and no code of a library has run. What goes wrong before it is
the cage's fault, what goes wrong after it the harness's."""


@dataclass(frozen=True, slots=True)
class CageLimits:
    """What one worker may use. Seconds, bytes and counts; enforced by cgroups where there are any, else by rlimits."""

    memory_bytes: int = 512 * 1024 * 1024
    pids: int = 16
    cpu_seconds: int = 3_600
    file_bytes: int = 16 * 1024 * 1024
    open_files: int = 64


@dataclass(frozen=True, slots=True)
class CageSpec:
    """One worker. `library`: the folder of the host that it may read. `program`: Python source that runs when all the
    walls stand; which interpreter runs it, and where it finds its files, is the cage's own affair."""

    name: str
    library: Path
    limits: CageLimits = CageLimits()
    program: str = WORKER


class Cage(Protocol):
    """Turns a spec into the argv of a child process of the engine: all walls stand before `program` begins. Killing
    the child's process group ends all that runs inside; standard error closes when nothing of it is left."""

    kind: str
    broken_status: int | None
    """The exit status that says that the cage itself failed and that nothing inside can bring about; None = none."""
    own_limits: bool
    """The cage itself bounds memory and processes; the child must then not be put into a control group."""

    @property
    def isolation(self) -> str:
        """One line for people and for the certificate: what this cage keeps in, and what it does not."""
        ...

    def argv(self, spec: CageSpec) -> list[str]: ...

    def library_path(self, library: Path) -> str:
        """Where the worker finds the library `library` of the host."""
        ...

    def available(self) -> Availability: ...

    def sweep(self) -> list[str]:
        """Remove what killed engines left of this cage; returns the names. May block; raises nothing."""
        ...
