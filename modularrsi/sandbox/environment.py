"""Builds a task's environment without images, once for all its rollouts.

A built environment is a private root with the Dockerfile's files in it, kept under a cache folder by content; each
rollout gets a copy. Several rollouts, and several engines, may ask at the same time: one builds, the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from modularrsi.errors import SandboxError
from modularrsi.sandbox.archive import folder_entries
from modularrsi.sandbox.base import ExecResult
from modularrsi.sandbox.build_context import Context
from modularrsi.sandbox.dockerfile import Copy, Link, Plan, Run, Step
from modularrsi.sandbox.records import remove_tree

_LOCK_POLL_SEC = 0.02
_TAIL_BYTES = 2_000


class Builder(Protocol):
    """What a build needs of a machine."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_sec: float | None = None,
    ) -> ExecResult: ...

    async def put(self, entries: Iterable[tuple[Path, str]], target: str, mode: int | None = None) -> None: ...

    async def write_file(
        self, path: str, data: bytes, mode: int | None, append: bool, user: str | int | None
    ) -> None: ...


def environment_digest(folder: Path, given: str, docker_image: str | None, salt: str) -> str:
    """Names a built environment: `given` when the caller knows its content's digest, else the content itself."""
    digest = hashlib.sha256(repr((salt, docker_image, given)).encode())
    if not given and folder.is_dir():
        for path, name in folder_entries(folder):
            info = path.lstat()
            content = str(path.readlink()).encode() if path.is_symlink() else b""
            digest.update(repr((name, info.st_mode, info.st_size, content)).encode())
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


async def built(cache: Path, name: str, build: Callable[[Path], Awaitable[None]]) -> Path:
    """The folder `cache/name`, made by `build(folder)` if it is not there yet; never seen half done."""
    final = cache / name
    if final.is_dir():
        return final
    cache.mkdir(parents=True, exist_ok=True)
    async with _locked(cache / f"{name}.lock"):
        if not final.is_dir():
            temporary = cache / f".{name}-{secrets.token_hex(4)}"
            temporary.mkdir()
            try:
                await build(temporary)
                temporary.rename(final)
            finally:
                await asyncio.to_thread(remove_tree, temporary)
    return final


@contextlib.asynccontextmanager
async def _locked(file: Path) -> AsyncIterator[None]:
    # Asked for again and again instead of waited for: a waiting thread per rollout would use up the pool that the
    # builder itself needs.
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_POLL_SEC)
        yield
    finally:
        os.close(handle)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a private root: owners, modes, links and holes kept; blocks are shared where the file system can."""
    done = subprocess.run(["cp", "-a", "--", str(source), str(target)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SandboxError(f"the environment cannot be copied: {done.stderr.strip()[-300:]}", "start_failed")


async def carry_out(
    plan: Plan, folder: Path, builder: Builder, base_env: Mapping[str, str], timeout_sec: float
) -> None:
    """Do a plan's steps in order. Raises SandboxError (build_failed), and what the builder raises."""
    deadline = time.monotonic() + timeout_sec
    context = Context(folder)
    for step in plan.steps:
        await _step(step, context, builder, base_env, deadline)


async def _step(step: Step, context: Context, builder: Builder, base_env: Mapping[str, str], deadline: float) -> None:
    if isinstance(step, Copy):
        await _copy(step, context, builder, base_env, deadline)
    elif isinstance(step, Run):
        await _checked(builder, step.argv, step.workdir, {**base_env, **step.env}, deadline, f"line {step.number}: RUN")
    elif isinstance(step, Link):
        await _checked(builder, ("/bin/ln", "-sf", step.target, step.path), "/", base_env, deadline, "link")
    else:
        await _checked(builder, ("/bin/mkdir", "-p", "--", step.path), "/", base_env, deadline, f"WORKDIR {step.path}")


async def _checked(
    builder: Builder, argv: Sequence[str], cwd: str, env: Mapping[str, str], deadline: float, what: str
) -> None:
    left = deadline - time.monotonic()
    if not argv[0].startswith("/"):
        argv = ("/usr/bin/env", "--", *argv)
    result = await builder.run(argv, cwd=cwd, env=env, timeout_sec=max(0.0, left))
    if result.timed_out:
        raise SandboxError(f"Dockerfile {what}: the build's time limit has passed", "build_failed")
    if result.exit_code != 0:
        tail = (result.stdout + result.stderr)[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
        raise SandboxError(f"Dockerfile {what} ended with {result.exit_code}: {tail}", "build_failed")


async def _copy(step: Copy, context: Context, builder: Builder, base_env: Mapping[str, str], deadline: float) -> None:
    folders = [name for name in step.sources if (context.folder / name).is_dir()]
    into = step.into or bool(folders) or await _is_folder(step.target, builder, base_env, deadline)
    target = PurePosixPath(step.target)
    for doc in step.texts:
        path = target / doc.name if into else target
        mode = 0o644 if step.mode is None else step.mode
        await builder.write_file(str(path), doc.text.encode(), mode, False, None)
    for name in step.sources:
        entries = context.files(name)
        if into:
            await builder.put(entries, str(target), step.mode)
        else:
            await builder.put([(path, target.name) for path, _ in entries], str(target.parent), step.mode)


async def _is_folder(path: str, builder: Builder, env: Mapping[str, str], deadline: float) -> bool:
    argv = ("/bin/sh", "-c", '[ -d "$1" ]', "sh", path)
    result = await builder.run(argv, cwd="/", env=env, timeout_sec=max(0.0, deadline - time.monotonic()))
    return result.exit_code == 0
