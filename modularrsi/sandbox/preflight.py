"""Before and after sandboxes, whatever their kind: what would be refused, and what a killed engine left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.sandbox import reap_folders
from modularrsi.sandbox.dockerfile import read_environment

_ROOT = (None, "root", 0, "0")


def refusals(kind: str, environment: Path, docker_image: str | None, users: Sequence[str | int | None]) -> list[str]:
    """Why a sandbox of this kind cannot build this environment or act as these users; empty = it can. Builds nothing:
    what only shows when it is built is an unscored rollout."""
    if kind == "docker":
        return []
    reasons = [f"a user other than root ({user}) needs docker" for user in dict.fromkeys(users) if user not in _ROOT]
    try:
        read_environment(environment, docker_image)
    except SandboxError as error:
        reasons.append(str(error))
    return reasons


async def reap(kind: str, labels: dict[str, str], folder: Path) -> list[str]:
    """Remove what carries these labels (containers) or lies in this folder (the other kinds); returns the names.

    Raises SandboxError (stop_failed) when something cannot be removed.
    """
    if kind == "docker":
        # Imported when needed: the Docker SDK takes longer to load than everything else here.
        return await import_module("modularrsi.sandbox.docker_reaper").reap(labels)
    if not folder.is_dir():
        return []
    return await asyncio.to_thread(reap_folders, folder, labels)
