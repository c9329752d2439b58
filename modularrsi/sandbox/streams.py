"""The standard streams of a command, for sandboxes that hand it plain descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator

_CHUNK = 65_536


def spool(data: bytes) -> int:
    """A descriptor of an unnamed file that holds `data`, at its start; the caller closes it."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("modularrsi")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


@contextlib.contextmanager
def spooled(data: bytes) -> Iterator[int]:
    """A descriptor to read `data` from for a while; `/dev/null` for no data."""
    handle = spool(data) if data else os.open(os.devnull, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


class Output:
    """Reads one stream of a command: keeps the first `limit` bytes, drains the rest so that nothing blocks."""

    def __init__(self, limit: int) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._limit = limit
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)
        self._keeping = True
        self.truncated = False
        self.open = True

    def close_writer(self) -> None:
        os.close(self.writer)

    def _read(self) -> bool:
        """One chunk; False when there is nothing (now, or any more)."""
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self.close()
        elif self._keeping:
            room = self._limit - len(self._data)
            self._data += chunk[:room]
            self.truncated = self.truncated or len(chunk) > room
        return bool(chunk)

    def take(self) -> bytes:
        """All that has been written up to now. What a detached child writes later is read and dropped, so that it
        neither blocks nor dies of a closed pipe."""
        budget = 64  # a child that prints without end must not hold the command up
        while self.open and budget and self._read():
            budget -= 1
        self._keeping = False
        return bytes(self._data)

    def close(self) -> None:
        if self.open:
            self.open = False
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
