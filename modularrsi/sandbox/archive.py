"""Folders as tar streams: trusted going in, hostile coming out."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

MAX_BYTES = 2 * 1024**3
MAX_FILES = 100_000
_BLOCK = 1024 * 1024


def folder_entries(source: Path) -> Iterator[tuple[Path, str]]:
    """(path on the host, name below the target) of a folder's content, parents first; links are never followed."""
    with os.scandir(source) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        yield Path(entry.path), entry.name
        if entry.is_dir(follow_symlinks=False):
            for path, name in folder_entries(Path(entry.path)):
                yield path, f"{entry.name}/{name}"


def pack(entries: Iterable[tuple[Path, str]], stream: IO[bytes], mode: int | None = None) -> None:
    """Write entries as a tar owned by root, modes kept unless `mode` is given. Devices, pipes, sockets are left out."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, name in entries:
            member = tar.gettarinfo(path, arcname=name)
            if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                continue
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            if mode is not None and not member.issym():
                member.mode = mode
            if member.isreg():
                with path.open("rb") as file:
                    tar.addfile(member, file)
            else:
                tar.addfile(member)


def unpack(stream: IO[bytes], target: Path) -> None:
    """Write the regular files and folders of a hostile tar stream below `target`, which is made if missing.

    Everything else is left out: links of both kinds, devices, pipes, names that are absolute or climb. As no link is
    ever made, no name leads outside. Raises ValueError beyond the limits, tarfile.TarError, OSError.
    """
    target.mkdir(parents=True, exist_ok=True)
    left, count = MAX_BYTES, 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            count += 1
            left -= member.size if member.isreg() else 0
            if count > MAX_FILES or left < 0:
                raise ValueError(f"more than {MAX_FILES} files or {MAX_BYTES} bytes")
            name = PurePosixPath(member.name)
            if name.parts and not name.is_absolute() and ".." not in name.parts:
                _write(tar, member, target / name)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and (source := tar.extractfile(member)) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            shutil.copyfileobj(source, file, _BLOCK)
        path.chmod(member.mode & 0o777 | 0o600)
