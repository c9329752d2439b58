"""Sandboxes for tests: which kinds there are here, and a started one on a fresh task."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from modularrsi.sandbox import make_sandbox
from modularrsi.sandbox.base import Resources, Sandbox, SandboxSpec
from modularrsi.sandbox.bwrap_probe import bubblewrap_availability
from modularrsi.sandbox.bwrap_root import ids_for_this_user
from modularrsi.sandbox.docker_client import docker_availability

DOCKERFILE = "FROM debian:bookworm-slim\nWORKDIR /app\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the conformance suite may expect of a kind. `isolated`: files, processes and network are private."""

    name: str
    isolated: bool = True
    users: bool = True
    folders: bool = True
    """It keeps its files in the scratch folder, and `reap_folders` finds what a killed engine left of it."""
    image: str | None = None


BUBBLEWRAP = Kind("bubblewrap", users=ids_for_this_user().base is not None)
PROCESS = Kind("process", isolated=False, users=False)
DOCKER = Kind("docker", folders=False, image=os.environ.get("MODULARRSI_TEST_IMAGE"))


def _params(*kinds: Kind) -> list[Any]:
    return [pytest.param(kind, id=kind.name, marks=pytest.mark.docker if kind is DOCKER else ()) for kind in kinds]


KINDS = _params(BUBBLEWRAP, PROCESS, DOCKER)
ISOLATING = _params(BUBBLEWRAP, DOCKER)
LOCAL = _params(BUBBLEWRAP, PROCESS)


def require(kind: Kind) -> None:
    """Skip the test, with the reason, where the kind does not work."""
    if kind.name == "bubblewrap":
        answer = bubblewrap_availability()
    elif kind.name == "docker":
        answer = docker_availability()
    else:
        return
    if not answer.usable:
        pytest.skip(f"{kind.name}: {answer.detail}")


def spec(kind: Kind, folder: Path, dockerfile: str = DOCKERFILE, **changes: Any) -> SandboxSpec:
    """A spec on a fresh environment below `folder`; `changes` are fields of `SandboxSpec`."""
    name = changes.pop("name", f"test-{secrets.token_hex(4)}")
    environment = folder / "environment"
    if not environment.exists():
        environment.mkdir(parents=True)
        (environment / "Dockerfile").write_text(dockerfile)
    scratch = folder / "scratch" / name
    scratch.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {"docker_image": kind.image, "workdir": "/app", "resources": Resources(pids=256)}
    return SandboxSpec(name=name, environment_dir=environment, scratch=scratch, **{**fields, **changes})


@contextlib.asynccontextmanager
async def started(kind: Kind, folder: Path, dockerfile: str = DOCKERFILE, **changes: Any) -> AsyncIterator[Sandbox]:
    sandbox = make_sandbox(kind.name, spec(kind, folder, dockerfile, **changes))
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.stop()


async def output(sandbox: Sandbox, command: str, env: Mapping[str, str] | None = None, **options: Any) -> str:
    """Standard output of a command that must succeed."""
    result = await sandbox.exec(command, env=env, timeout_sec=options.pop("timeout_sec", 30.0), **options)
    assert result.exit_code == 0, (result.exit_code, result.stderr.decode(errors="replace"))
    return result.stdout.decode()
