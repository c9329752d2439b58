"""Files into a container and out of it.

Single files go through a command inside the container, as the user asked for: a planted symbolic link resolves there.
Folders go through the Engine's archive calls, which resolve links inside the container's root. What comes out is
hostile: regular files and folders only, below the target only, within bounds of size and number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import ExecResult
from modularrsi.sandbox.docker_client import Engine

FOLDER_SEC = 300.0
MAX_DOWNLOAD_BYTES = 2 * 1024**3
MAX_DOWNLOAD_FILES = 100_000
_FILE_SEC = 60.0
_SPOOL_BYTES = 8 * 1024 * 1024
_BLOCK = 1024 * 1024
_UNWRITABLE = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP}
"""A name that this host cannot hold costs that file, not the folder."""


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
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as archive:
            pack(source, archive)
            archive.seek(0)
            container.put_archive(target, archive)

    await engine.call(f"{source} cannot be copied to {target}", "upload_failed", put, FOLDER_SEC)


def pack(source: Path, archive: IO[bytes]) -> None:
    """A tar of a folder's content, owned by root, modes kept; symbolic links stay links and are never followed."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(_below(source)):
            tar.add(path, arcname=path.relative_to(source).as_posix(), recursive=False, filter=_root_owned)


def _below(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        path = Path(entry.path)
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path)


def _root_owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


async def download_dir(engine: Engine, container: Any, source: str, target: Path) -> None:
    """Copy a folder's content into `target`, which is made if missing.

    Raises `SandboxError` ("download_failed"): no such folder, or more than the limits allow.
    """
    deadline = time.monotonic() + FOLDER_SEC

    def get() -> None:
        # "/." makes a link to a folder resolve (inside the container), and names members relative to it.
        stream, _ = container.get_archive(source.rstrip("/") + "/.", chunk_size=_BLOCK)
        with contextlib.closing(stream):
            unpack(_Chunks(stream, deadline), target)

    try:
        await engine.call(f"{source} cannot be copied out", "download_failed", get, FOLDER_SEC)
    except (tarfile.TarError, ValueError) as error:
        raise SandboxError(f"{source} cannot be copied out: {error}", "download_failed") from error


def unpack(archive: Any, target: Path) -> None:
    """Write the regular files and folders of a hostile tar stream below `target`.

    Everything else is left out: links of both kinds, devices, pipes, names that are absolute or climb. As no link is
    ever made, no path below `target` leads outside. Raises ValueError beyond the limits, tarfile.TarError, OSError.
    """
    target.mkdir(parents=True, exist_ok=True)
    left, count = MAX_DOWNLOAD_BYTES, 0
    with tarfile.open(fileobj=archive, mode="r|") as tar:
        for member in tar:
            count += 1
            left -= member.size if member.isreg() else 0
            if count > MAX_DOWNLOAD_FILES or left < 0:
                raise ValueError(f"more than {MAX_DOWNLOAD_FILES} files or {MAX_DOWNLOAD_BYTES} bytes")
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts or not name.parts:
                continue
            try:
                _write_member(tar, member, target / name)
            except OSError as error:
                if error.errno not in _UNWRITABLE:
                    raise


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(member)
        assert content is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(path, "wb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
            while block := content.read(_BLOCK):
                file.write(block)
        path.chmod(stat.S_IMODE(member.mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)


class _Chunks:
    """A file to read from an iterator of chunks, until a deadline (`time.monotonic`)."""

    def __init__(self, chunks: Iterator[bytes], deadline: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._chunks, self._deadline, self._clock = iter(chunks), deadline, clock
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
            if self._clock() > self._deadline:
                raise ValueError("not done in time")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part
