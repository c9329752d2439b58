"""What a cage is: the walls around one worker, which runs code that a model wrote.

A worker needs a Python, the `harness` package and one library, all read-only, and its three standard streams. Nothing
else exists inside: no network, no key, no store, no task, no other process, no environment variable of the engine.
Kinds, strongest first, and how each is told apart in a certificate: see `modularrsi.cage.choose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modularrsi.sandbox.base import Availability


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
    """`command` runs inside; `readonly` are (host path, path inside) pairs that it may read."""

    name: str
    command: Sequence[str]
    readonly: Sequence[tuple[Path, str]] = ()
    limits: CageLimits = CageLimits()


class Cage(Protocol):
    """Turns a spec into the argv of a child process that is inside the walls before its first instruction."""

    kind: str
    isolation: str
    """One line for people and for the certificate: what this cage keeps in, and what it does not."""

    def argv(self, spec: CageSpec) -> list[str]: ...

    def library_path(self, library: Path) -> str:
        """Where the worker finds the library `library` of the host."""
        ...

    def available(self) -> Availability: ...
