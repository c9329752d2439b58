"""The Engine's HTTP interface, blocking: small requests, and one hijacked stream.

Requests are HTTP/1.0: the answer ends where the connection ends and is never chunked (RFC 9112 §6.3).
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

BLOCK = 65_536
ANSWER_BYTES = 1_000_000
TIMEOUT_SEC = 30.0


class Failed(Exception):
    """The Engine refused (`status` is its HTTP status) or cannot be reached (0)."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """One Engine: `unix:///path` or `tcp://host:port`, and the API version to speak ("" = the Engine's newest)."""

    def __init__(self, url: str, version: str = "") -> None:
        self.url = url
        self.prefix = f"/v{version}" if version else ""

    def open(self) -> socket.socket:
        try:
            if self.url.startswith("unix://"):
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(TIMEOUT_SEC)
                connection.connect(self.url.removeprefix("unix://"))
                return connection
            host, _, port = self.url.removeprefix("tcp://").rstrip("/").rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_SEC)
        except (OSError, ValueError) as error:
            raise Failed(f"the Docker Engine at {self.url} cannot be reached: {error}") from error

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request with a JSON answer; {} when it is empty. Raises `Failed`, OSError, ValueError."""
        return self._whole(self._send(method, path, _json(body), "application/json", "", "HTTP/1.0"))

    def put(self, path: str, archive: bytes) -> None:
        """Upload a tar archive."""
        self._whole(self._send("PUT", path, archive, "application/x-tar", "", "HTTP/1.0"))

    def attach(self, path: str, body: object = None) -> tuple[socket.socket, bytes]:
        """POST for a hijacked connection: its raw stream, and what of it came together with the header."""
        extra = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
        connection = self._send("POST", path, _json(body), "application/json", extra, "HTTP/1.1")
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < ANSWER_BYTES:
            part = connection.recv(BLOCK)
            if not part:
                raise Failed("the Docker Engine closed the connection")
            answer += part
        head, _, rest = answer.partition(b"\r\n\r\n")
        _check(head, rest)
        return connection, rest

    def _send(self, method: str, path: str, data: bytes, kind: str, extra: str, protocol: str) -> socket.socket:
        head = f"{method} {self.prefix}{path} {protocol}\r\nHost: docker\r\nContent-Type: {kind}\r\n"
        connection = self.open()
        connection.sendall(f"{head}{extra}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return connection

    @staticmethod
    def _whole(connection: socket.socket) -> Any:
        with connection:
            answer = b""
            while len(answer) < ANSWER_BYTES and (part := connection.recv(BLOCK)):
                answer += part
        head, _, content = answer.partition(b"\r\n\r\n")
        _check(head, content)
        return json.loads(content) if content.lstrip().startswith((b"{", b"[")) else {}


def _json(body: object) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _check(head: bytes, content: bytes) -> None:
    """Raise `Failed` with the Engine's own words for an error status."""
    fields = head.split(b" ", 2)
    if len(fields) < 2 or not fields[1].isdigit():
        raise Failed("that is no Docker Engine")
    status = int(fields[1])
    if status < 400:
        return
    try:
        message = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        message = content.decode("utf-8", "replace").strip()[-500:]
    raise Failed(message, status)


def write(handle: int, data: bytes) -> None:
    """All of it, to a file descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
