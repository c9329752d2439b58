"""Bytes under the name of their SHA-256, compressed (zlib), written once and checked on every read."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from modularrsi.digest import digest_bytes
from modularrsi.errors import StoreError
from modularrsi.store.files import write_new

_DIGEST = re.compile(r"[0-9a-f]{64}")
MAX_BLOB_BYTES = 1 << 30


class Blobs:
    """`folder/ab/ab12….z`. Any number of threads and processes may put and get at the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """The digest (64 hex digits of SHA-256 of the uncompressed bytes); durable when this returns."""
        digest = digest_bytes(data)
        path = self._path(digest)
        if not path.exists():
            write_new(path, zlib.compress(data, 6))
        return digest

    def get(self, digest: str) -> bytes:
        """Raises StoreError when the blob is missing or is not what its name says."""
        path = self._path(digest)
        try:
            packed = path.read_bytes()
        except OSError as error:
            raise StoreError(f"blob {digest} cannot be read: {error.strerror}") from error
        data = _inflate(packed, path)
        if digest_bytes(data) != digest:
            raise StoreError(f"{path}: its content does not match its name")
        return data

    def __contains__(self, digest: str) -> bool:
        return self._path(digest).exists()

    def __iter__(self) -> Iterator[str]:
        """Every digest, sorted."""
        return (path.stem for path in sorted(self._folder.glob("??/*.z")))

    def sweep(self) -> int:
        """Remove what killed writers left half-written; only the run's one writer calls this. Returns how many."""
        left = list(self._folder.glob("??/.*.tmp"))
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise StoreError(f"{digest[:80]!r} is not a blob's digest (64 hexadecimal digits)")
        return self._folder / digest[:2] / f"{digest}.z"


def _inflate(packed: bytes, path: Path) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, MAX_BLOB_BYTES)
    except zlib.error as error:
        raise StoreError(f"{path}: damaged: {error}") from error
    if not stream.eof or stream.unused_data:
        raise StoreError(f"{path}: damaged: its compressed stream does not end where the file does")
    return data
