"""Sandboxes: one private machine per rollout. `base` is the contract, `make_sandbox` the way in.

Kinds are imported when they are asked for: the Docker SDK alone takes longer to import than a bubblewrap sandbox to
start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from modularrsi.errors import UserError
from modularrsi.sandbox.base import Availability, Sandbox, SandboxSpec

_CLASSES = {
    "docker": "modularrsi.sandbox.docker:DockerSandbox",
    "bubblewrap": "modularrsi.sandbox.bubblewrap:BubblewrapSandbox",
    "process": "modularrsi.sandbox.process:ProcessSandbox",
}
_PROBES = {
    "docker": "modularrsi.sandbox.docker_client:docker_availability",
    "bubblewrap": "modularrsi.sandbox.bwrap_probe:bubblewrap_availability",
    "process": "modularrsi.sandbox.process:process_availability",
}
KINDS = tuple(_CLASSES)
"""Strongest isolation of whole tasks first; `process` isolates nothing and is only used when asked for by name."""


def make_sandbox(kind: str, spec: SandboxSpec) -> Sandbox:
    """A sandbox that is not started yet. Raises UserError for an unknown kind."""
    if kind not in _CLASSES:
        raise UserError(f"sandbox {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    return _named(_CLASSES[kind])(spec)


def availability() -> list[Availability]:
    """What works on this machine, by trying; in the order of `KINDS`."""
    probes: list[Callable[[], Availability]] = [_named(_PROBES[kind]) for kind in KINDS]
    return [probe() for probe in probes]


def reap_folders(folder: Path, labels: dict[str, str] | None = None) -> list[str]:
    """Remove what killed engines left of `bubblewrap` and `process` sandboxes under `folder`; returns their names.

    Containers have a reaper of their own (`modularrsi.sandbox.docker_reaper`). Raises SandboxError (stop_failed).
    """
    return _named("modularrsi.sandbox.records:reap")(folder, labels)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
