"""A real Docker Engine for tests: the one that DOCKER_HOST names, or one at a usual place; otherwise the tests skip.

Use: `from support.docker_engine import docker_engine`, mark the module `docker` and use the fixture. Everything a test
makes carries `LABELS`, and what is left of it at the end of the session is an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from modularrsi.sandbox.base import SandboxSpec
from modularrsi.sandbox.docker import DockerSandbox
from modularrsi.sandbox.docker_client import Engine, docker_availability, engine
from modularrsi.sandbox.docker_reaper import reap

TINY, SLIM, FULL = "modularrsi-ci:tiny", "debian:bookworm-slim", "modularrsi-ci:full"
LABELS = {"modularrsi.test": uuid.uuid4().hex}
HOW = 'start one with: eval "$(.ci/docker.sh start)"'


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[Engine]:
    """The Engine, with the base images of `.ci/docker.sh` on it."""
    seen = docker_availability()
    if not seen.usable:
        pytest.skip(f"{seen.detail}; {HOW}")
    found = engine()
    for image in (TINY, SLIM, FULL):
        try:
            found.client.images.get(image)
        except found.errors.ImageNotFound:
            pytest.skip(f"the Engine has no image {image}; {HOW}")
    yield found
    left = asyncio.run(reap(LABELS))
    assert not left, f"tests left containers behind: {left}"


def spec(tmp: Path, image: str | None = TINY, **options: Any) -> SandboxSpec:
    """A spec with a name of its own and the session's labels."""
    scratch = tmp / "scratch"
    scratch.mkdir(exist_ok=True)
    options.setdefault("name", f"test-{uuid.uuid4().hex[:12]}")
    options.setdefault("environment_dir", tmp / "environment")
    return SandboxSpec(scratch=scratch, docker_image=image, labels=LABELS, **options)


@contextlib.asynccontextmanager
async def sandbox(tmp: Path, image: str | None = TINY, **options: Any) -> AsyncIterator[DockerSandbox]:
    """A started sandbox, stopped at the end."""
    made = DockerSandbox(spec(tmp, image, **options))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def dockerfile(tmp: Path, *lines: str) -> Path:
    """`environment/Dockerfile` with these lines; returns the folder."""
    folder = tmp / "environment"
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    return folder
