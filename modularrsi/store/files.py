"""Files that are either wholly there or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from modularrsi.errors import StoreError


def write_new(path: Path, data: bytes) -> None:
    """Write `path` so that a crash leaves the old state or the new one: temporary file, fsync, rename, fsync.

    Raises StoreError when the disk is full or the folder cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        make_folder(path.parent)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreError(f"{path}: cannot write: {error.strerror}") from error


def make_folder(path: Path) -> None:
    """Make `path` and what is missing above it, durably. Raises OSError."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames and new names in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
