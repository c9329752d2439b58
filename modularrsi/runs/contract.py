"""What a run is bound to. Frozen into its first event; a resumed run must have exactly the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from modularrsi.digest import digest_value
from modularrsi.tasks.model import Task


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything that a reward depends on: which tasks (by content), who acted, where, how often, with which model.

    `agent` and `models` are descriptions without secrets. Two rewards may be compared only under equal contracts.
    """

    tasks: Mapping[str, str]
    attempts: int
    sandbox: str
    isolation: str
    agent: Mapping[str, Any]
    models: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout_multiplier: float = 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def digest(self) -> str:
        """sha256 over the canonical JSON: the identity by which an unfinished run is found again."""
        return digest_value(self.to_json())


def task_digests(tasks: Sequence[Task]) -> dict[str, str]:
    return {task.name: task.digest for task in tasks}


def versions() -> dict[str, str]:
    """Versions for the certificate; not part of the contract's digest."""
    return {
        "modularrsi": _version("modularrsi"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
