"""The image of a task: built from `environment/Dockerfile` once per content, or a named one, pulled when missing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from modularrsi.digest import digest_tree
from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import SandboxSpec
from modularrsi.sandbox.docker_classic import needs_buildkit, stage
from modularrsi.sandbox.docker_client import Engine, explain

REPOSITORY = "modularrsi/task"
LABEL = "modularrsi.image"
_TAIL_CHARACTERS = 2000
_PULL_SEC = 1800.0

_builds: dict[tuple[str, str], Future[str]] = {}
_builds_lock = threading.Lock()


async def ensure_image(engine: Engine, spec: SandboxSpec) -> str:
    """The name of the task's image, which exists afterwards.

    Callers that want the same image at the same time share one build or pull; a failure is tried again only by later
    callers. Raises `SandboxError`: "build_failed" with the end of the build's output, "unsupported" for an environment
    that is not one Dockerfile.
    """
    if spec.docker_image:
        name, limit = spec.docker_image, _PULL_SEC
        make: Callable[[], None] = lambda: _pull(engine, name)  # noqa: E731
    else:
        _check(spec.environment_dir)
        name, limit = image_tag(spec), spec.build_timeout_sec
        make = lambda: _build(engine, spec, name)  # noqa: E731
    if await engine.call(f"image {name}", "build_failed", lambda: _exists(engine, name)):
        return name
    try:
        async with asyncio.timeout(limit):
            return await asyncio.shield(asyncio.wrap_future(_shared(engine, name, make)))
    except TimeoutError as error:
        raise SandboxError(f"the image {name} was not ready within {limit:.0f} s", "build_failed") from error


def image_tag(spec: SandboxSpec) -> str:
    """`modularrsi/task:<digest>`: of the environment as the task states it, else of the folder itself."""
    digest = spec.environment_digest or digest_tree(spec.environment_dir, links="hash", modes=True)
    return f"{REPOSITORY}:{re.sub('[^A-Za-z0-9_.-]', '-', digest)[:64]}"


def _check(environment: Path) -> None:
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (environment / name).exists():
            raise SandboxError(f"{environment / name}: tasks of several containers are not supported", "unsupported")
    if not (environment / "Dockerfile").is_file():
        why = "there is no such file, and the task names no docker_image"
        raise SandboxError(f"{environment / 'Dockerfile'}: {why}", "unsupported")


def _shared(engine: Engine, name: str, make: Callable[[], None]) -> Future[str]:
    """The running build of this image, or a new one, in a thread of its own (a build would block a pool's for long)."""
    key = (engine.address.url, name)
    with _builds_lock:
        if key in _builds:
            return _builds[key]
        future = _builds[key] = Future[str]()
        future.set_running_or_notify_cancel()

    def work() -> None:
        outcome: BaseException | None = None
        try:
            make()
        except BaseException as error:  # noqa: BLE001 - handed to every waiter through the future
            outcome = error
        with _builds_lock:
            del _builds[key]
        if outcome is None:
            future.set_result(name)
        else:
            future.set_exception(outcome)

    threading.Thread(target=work, name=f"image {name}", daemon=True).start()
    return future


def _exists(engine: Engine, name: str) -> bool:
    try:
        engine.client.images.get(name)
    except engine.errors.ImageNotFound:
        return False
    return True


def _pull(engine: Engine, name: str) -> None:
    try:
        repository, _, digest = name.partition("@")
        if digest:
            engine.client.images.pull(repository, tag=digest)
        else:
            engine.client.images.pull(name)
    except (engine.errors.DockerException, OSError) as error:
        raise SandboxError(f"the image {name} cannot be pulled: {explain(error)}", "build_failed") from error


def _build(engine: Engine, spec: SandboxSpec, tag: str) -> None:
    dockerfile = spec.environment_dir / "Dockerfile"
    if not needs_buildkit(dockerfile.read_text("utf-8", "replace")):
        _build_classic(engine, spec.environment_dir, spec, tag)
    elif client := _buildkit_client():
        _build_with_client(client, engine, spec, tag)
    else:
        with tempfile.TemporaryDirectory(prefix="modularrsi-build-") as folder:
            stage(spec.environment_dir, Path(folder) / "context")
            _build_classic(engine, Path(folder) / "context", spec, tag)


def _build_classic(engine: Engine, context: Path, spec: SandboxSpec, tag: str) -> None:
    """With the builder that every Engine has."""
    dockerfile = spec.environment_dir / "Dockerfile"
    try:
        events = engine.client.api.build(
            path=str(context), tag=tag, rm=True, forcerm=True, decode=True,
            labels={LABEL: tag}, timeout=max(1, int(spec.build_timeout_sec)),
        )  # fmt: skip
        _follow(events, dockerfile, time.monotonic() + spec.build_timeout_sec)
    except (engine.errors.DockerException, OSError, TypeError) as error:
        raise SandboxError(f"{dockerfile}: the build failed: {explain(error)}", "build_failed") from error


def _follow(events: Iterable[dict[str, Any]], dockerfile: Path, deadline: float) -> None:
    """Read a build's events to their end. Raises `SandboxError` with the end of the output."""
    output = ""
    for event in events:
        output = (output + str(event.get("stream", "")))[-_TAIL_CHARACTERS:]
        if "error" in event:
            raise SandboxError(f"{dockerfile}: the build failed: {event['error']}\n{output.strip()}", "build_failed")
        if time.monotonic() > deadline:
            raise SandboxError(f"{dockerfile}: the build ran out of time\n{output.strip()}", "build_failed")


def _buildkit_client() -> str | None:
    """Docker's client, when it has the plugin that speaks BuildKit's protocol."""
    client = shutil.which("docker")
    if client is None:
        return None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run([client, "buildx", "version"], capture_output=True, timeout=20, check=False)
        return client if asked.returncode == 0 else None
    return None


def _build_with_client(client: str, engine: Engine, spec: SandboxSpec, tag: str) -> None:
    dockerfile = spec.environment_dir / "Dockerfile"
    argv = [client, "buildx", "build", "--load", "--tag", tag, "--label", f"{LABEL}={tag}", "--file", str(dockerfile)]
    env = {**os.environ, "BUILDKIT_PROGRESS": "plain", "DOCKER_HOST": engine.address.url}
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(
                [*argv, str(spec.environment_dir)], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                timeout=spec.build_timeout_sec, check=False, start_new_session=True,
            )  # fmt: skip
            failed = "" if done.returncode == 0 else f"the build failed (exit code {done.returncode})"
        except subprocess.TimeoutExpired:
            failed = "the build ran out of time"
        if failed:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_CHARACTERS))
            tail = log.read().decode("utf-8", "replace").strip()
            raise SandboxError(f"{dockerfile}: {failed}\n{tail}", "build_failed")
