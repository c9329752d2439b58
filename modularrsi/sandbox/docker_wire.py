"""The Engine's HTTP interface, as far as an exec needs it: small JSON requests, and the raw stream of one exec.

The Docker SDK hands out the socket below a buffered reader, so that output which arrives together with the response
header is lost; and it blocks a thread for as long as a command runs. Both matter here, so execs go over asyncio
streams. Requests are HTTP/1.0: the answer ends where the connection ends and is never chunked (RFC 9112 §6.3).
Frames: https://docs.docker.com/reference/api/engine/ (ContainerAttach, "Stream format").
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from modularrsi.errors import SandboxError

_ANSWER_BYTES = 16 * 1024 * 1024
_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where the Engine listens: `unix:///path` or `tcp://host:port`, and the API version agreed on ("" = newest)."""

    url: str
    version: str = ""

    @property
    def socket_path(self) -> str:
        """The path of a unix socket, "" for TCP."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else ""

    def path(self, path: str) -> str:
        return f"/v{self.version}{path}" if self.version else path

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.socket_path:
            return await asyncio.open_unix_connection(self.socket_path, limit=_READ_BYTES)
        parts = urlsplit(self.url)
        return await asyncio.open_connection(parts.hostname, parts.port or 2375, limit=_READ_BYTES)


class EngineRefused(SandboxError):
    """The Engine answered with an error. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message, "lost" if status in (404, 409) else "start_failed")
        self.status = status


async def ask(address: EngineAddress, method: str, path: str, body: Any = None, timeout_sec: float = 30.0) -> Any:
    """One request with a JSON answer (None when it is empty).

    Raises `EngineRefused` for an error status, `SandboxError` ("lost") when the Engine cannot be reached in time.
    """
    try:
        async with asyncio.timeout(timeout_sec):
            reader, writer = await address.open()
            with contextlib.closing(writer):
                writer.write(_request(method, address.path(path), body, "HTTP/1.0", ""))
                status = await _status(reader)
                answer = await reader.read(_ANSWER_BYTES) if status != 204 else b""
                while status != 204 and len(answer) < _ANSWER_BYTES and (more := await reader.read(_READ_BYTES)):
                    answer += more
        if status >= 400:
            raise EngineRefused(status, _message(answer))
        return json.loads(answer) if answer.strip() else None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise SandboxError(f"the Docker Engine does not answer ({method} {path}): {error!r}", "lost") from error


class RawStream:
    """The stream of one exec without a tty: frames out, bytes in. Close it in any case."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def start(cls, address: EngineAddress, exec_id: str) -> RawStream:
        """Start a created exec. The daemon reports a program that cannot be started inside the stream, as text."""
        try:
            reader, writer = await address.open()
        except OSError as error:
            raise SandboxError(f"the Docker Engine does not answer: {error!r}", "lost") from error
        body = {"Detach": False, "Tty": False}
        extra = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
        try:
            writer.write(_request("POST", address.path(f"/exec/{exec_id}/start"), body, "HTTP/1.1", extra))
            status = await _status(reader)
            if status not in (101, 200):
                raise EngineRefused(status, _message(await reader.read(_ANSWER_BYTES)))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            writer.close()
            raise SandboxError(f"the Docker Engine broke off an exec: {error!r}", "lost") from error
        except BaseException:
            writer.close()
            raise
        return cls(reader, writer)

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        """(1 = stdout | 2 = stderr, bytes) until the stream ends; a stream cut in a frame just ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                header = await self._reader.readexactly(8)
                left = int.from_bytes(header[4:8], "big")
                while left:
                    part = await self._reader.read(min(left, _READ_BYTES))
                    if not part:
                        return
                    left -= len(part)
                    yield header[0], part

    async def feed(self, data: bytes) -> None:
        """Write stdin and end it. A command that does not read it all is no fault."""
        with contextlib.suppress(OSError):
            for start in range(0, len(data), _READ_BYTES):
                self._writer.write(data[start : start + _READ_BYTES])
                await self._writer.drain()
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


def _request(method: str, path: str, body: Any, protocol: str, extra: str) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if data else ""
    head = f"{method} {path} {protocol}\r\nHost: docker\r\n{kind}{extra}Content-Length: {len(data)}\r\n\r\n"
    return head.encode("ascii") + data


async def _status(reader: asyncio.StreamReader) -> int:
    """Read the header of a response; everything after it is still in `reader`."""
    header = await reader.readuntil(b"\r\n\r\n")
    if not (status := re.match(rb"HTTP/1\.[01] (\d{3})", header)):
        raise ValueError(f"not an HTTP answer: {header[:80]!r}")
    return int(status[1])


def _message(answer: bytes) -> str:
    """What an error body says: `{"message": …}`, or its text."""
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode("utf-8", "replace").strip()[-500:] or "no reason given"
