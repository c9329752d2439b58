"""Files into a container and out of it.

Single files go through a command inside the container, as the user asked for: a planted symbolic link resolves there.
Folders go through the Engine's archive calls, which resolve links inside the container's root. What comes out is
hostile: regular files and folders only, below the target only, within bounds of size and number.
"""

from __future__ import annotations

import contextlib
import shlex
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast

from modularrsi.errors import SandboxError
from modularrsi.sandbox import archive
from modularrsi.sandbox.base import ExecResult
from modularrsi.sandbox.docker_client import Engine

FOLDER_SEC = 300.0
_FILE_SEC = 60.0
_SPOOL_BYTES = 8 * 1024 * 1024
_BLOCK = 1024 * 1024


class Run(Protocol):
    """`Sandbox.exec`, as far as files need it."""

    async def __call__(
        self, command: str, *, user: str | int | None, timeout_sec: float, stdin: bytes = b"", output_limit: int = 0
    ) -> ExecResult: ...


async def read_file(run: Run, path: str, max_bytes: int, user: str | int | None) -> bytes:
    """The first `max_bytes` of a regular file. Raises `SandboxError` ("read_failed") when that cannot be read."""
    name = shlex.quote(path)
    command = f"[ ! -e {name} ] || [ -f {name} ] || {{ echo 'not a regular file' >&2; exit 1; }}; "
    result = await run(
        command + f"head -c {max_bytes} -- {name}", user=user, timeout_sec=_FILE_SEC, output_limit=max(max_bytes, 4096)
    )
    if result.exit_code != 0:
        raise SandboxError(f"{path} cannot be read: {_why(result)}", "read_failed")
    return result.stdout


async def write_file(
    run: Run, path: str, data: bytes, mode: int | None, append: bool, user: str | int | None
) -> None:
    """Folders on the way are made. Raises `SandboxError` ("write_failed")."""
    name, folder = shlex.quote(path), shlex.quote(str(PurePosixPath(path).parent))
    command = (
        f"[ ! -e {name} ] || [ -f {name} ] || {{ echo 'not a regular file' >&2; exit 1; }}; "
        f"[ -d {folder} ] || mkdir -p -- {folder} && cat {'>>' if append else '>'} {name}"
    )
    if mode is not None:
        command += f" && chmod {mode & 0o7777:o} -- {name}"
    result = await run(command, user=user, timeout_sec=_FILE_SEC, stdin=data, output_limit=4096)
    if result.exit_code != 0:
        raise SandboxError(f"{path} cannot be written: {_why(result)}", "write_failed")


def _why(result: ExecResult) -> str:
    if result.timed_out:
        return f"not done within {_FILE_SEC:.0f} s"
    return result.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit code {result.exit_code}"


# ------------------------------------------------------------------------------------------------------------- folders


async def upload_dir(engine: Engine, container: Any, source: Path, target: str) -> None:
    """Copy the content of `source` into the folder `target`, which exists. Raises `SandboxError` ("upload_failed")."""

    def put() -> None:
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as stream:
            archive.pack(archive.folder_entries(source), stream)
            stream.seek(0)
            container.put_archive(target, stream)

    await engine.call(f"{source} cannot be copied to {target}", "upload_failed", put, FOLDER_SEC)


async def download_dir(engine: Engine, container: Any, source: str, target: Path) -> None:
    """Copy a folder's content into `target`, which is made if missing.

    Raises `SandboxError` ("download_failed"): no such folder, or more than `archive`'s limits allow.
    """
    deadline = time.monotonic() + FOLDER_SEC

    def get() -> None:
        # "/." makes a link to a folder resolve (inside the container), and names members relative to it.
        stream, _ = container.get_archive(source.rstrip("/") + "/.", chunk_size=_BLOCK)
        with contextlib.closing(stream):
            archive.unpack(cast(IO[bytes], Chunks(stream, deadline)), target)

    try:
        await engine.call(f"{source} cannot be copied out", "download_failed", get, FOLDER_SEC)
    except (tarfile.TarError, ValueError) as error:
        raise SandboxError(f"{source} cannot be copied out: {error}", "download_failed") from error


class Chunks:
    """A file to read from an iterator of chunks, until a deadline (`time.monotonic`)."""

    def __init__(self, chunks: Iterator[bytes], deadline: float) -> None:
        self._chunks, self._deadline = iter(chunks), deadline
        self._rest = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
            if time.monotonic() > self._deadline:
                raise ValueError("not done in time")
        part = bytes(self._rest[:size])
        del self._rest[:size]
        return part
