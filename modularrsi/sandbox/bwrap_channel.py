"""The engine's end of a bubblewrap sandbox: starts the helper, sends requests, collects what commands print.

One socket per sandbox (SOCK_SEQPACKET). A request is a memfd with JSON plus the command's three streams as
descriptors; the answers are small JSON messages: the command's pid, then how it ended.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modularrsi.errors import SandboxError
from modularrsi.processes import Process, identify
from modularrsi.sandbox.streams import Output, spool

HELPER = Path(__file__).with_name("bwrap_helper.py")
ENTER = HELPER.with_name("bwrap_enter.py")
_MESSAGE_BYTES = 65_536


class _HelperRoot:
    """The one interpreter of this engine that sandboxes' helpers are forked from; started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def connect(self) -> socket.socket:
        """A socket to a fresh helper. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            try:
                self._send(theirs)
            except OSError:
                self._start()
                self._send(theirs)
        return ours

    def _send(self, theirs: socket.socket) -> None:
        if self._socket is None or self._owner != os.getpid():
            raise BrokenPipeError("no helper yet")
        socket.send_fds(self._socket, [b"new"], [theirs.fileno()])

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-I", "-S", "-B", str(HELPER), str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                env={"LANG": "C"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket, self._owner = ours, os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        if self._socket is not None and self._process is not None and self._owner == os.getpid():
            self._socket.close()
            self._process.wait(timeout=5)
            self._socket = None


_ROOT = _HelperRoot()


@dataclass(frozen=True, slots=True)
class Hello:
    """Host pids of a sandbox: its helper, bwrap, and the first process inside."""

    helper: Process
    bwrap: Process
    first: Process


@dataclass(slots=True)
class _Pending:
    started: asyncio.Future[Process | None]
    finished: asyncio.Future[dict[str, Any]]
    process: Process | None = None


def open_socket(plan: dict[str, Any], timeout_sec: float) -> tuple[socket.socket, Hello]:
    """Start a sandbox by plan and wait until it is ready; blocking. Raises SandboxError (start_failed)."""
    try:
        channel = _ROOT.connect()
    except OSError as error:
        raise SandboxError(f"the sandbox's helper does not start: {error}", "start_failed") from error
    try:
        channel.settimeout(timeout_sec)
        handle = spool(json.dumps(plan).encode())
        try:
            socket.send_fds(channel, [b"plan"], [handle])
        finally:
            os.close(handle)
        return channel, _read_hello(channel.recv(_MESSAGE_BYTES))
    except (OSError, SandboxError) as error:
        channel.close()
        if isinstance(error, SandboxError):
            raise
        raise SandboxError(f"bwrap is not ready after {timeout_sec:.0f} s: {error}", "start_failed") from error


def _read_hello(raw: bytes) -> Hello:
    message = json.loads(raw) if raw else {"error": "the helper ended"}
    if "error" in message:
        raise SandboxError(f"bwrap does not start: {message['error']}", "start_failed")
    found = [identify(int(message[name])) for name in ("helper", "bwrap", "first")]
    if any(process is None for process in found):
        raise SandboxError("the sandbox ended as soon as it was ready", "start_failed")
    return Hello(*[process for process in found if process is not None])


@dataclass(slots=True)
class Running:
    """A request under way. `process` is the command's host pid; `outcome` what the helper said of its end."""

    channel: Channel
    number: int
    out: Output
    err: Output
    pending: _Pending
    outcome: dict[str, Any] = field(default_factory=dict[str, Any])

    async def wait(self, timeout_sec: float | None) -> bool:
        """False when the time is up first. Raises SandboxError (lost)."""
        done, _ = await asyncio.wait([self.pending.finished], timeout=timeout_sec)
        if done:
            self.outcome = self.pending.finished.result()
        return bool(done)


class Channel:
    """Requests to one sandbox; bound to the event loop it is made in."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._outputs: set[Output] = set()
        self.open = True
        self._loop.add_reader(sock, self._receive)

    def begin(self, request: dict[str, Any], stdin: int, output_limit: int, stdout: int | None = None) -> Running:
        """Send a request; `stdin` and `stdout` are descriptors that stay the caller's. Raises SandboxError (lost)."""
        if not self.open:
            raise SandboxError("the sandbox is gone", "lost")
        number = next(self._numbers)
        pending = _Pending(self._loop.create_future(), self._loop.create_future())
        out, err = Output(output_limit), Output(output_limit)
        self._outputs = {output for output in self._outputs if output.open} | {out, err}
        handle = spool(json.dumps({**request, "id": number}).encode())
        try:
            streams = [stdin, out.writer if stdout is None else stdout, err.writer]
            socket.send_fds(self._socket, [b"do"], [handle, *streams])
        except OSError as error:
            out.close()
            err.close()
            raise SandboxError(f"the sandbox is gone: {error}", "lost") from error
        finally:
            os.close(handle)
            out.close_writer()
            err.close_writer()
        self._pending[number] = pending
        return Running(self, number, out, err, pending)

    def _receive(self) -> None:
        try:
            raw = self._socket.recv(_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        if not raw:
            self.close()
            return
        message = json.loads(raw)
        pending = self._pending.get(message["id"])
        if pending is None:
            return
        if "pid" in message:
            pending.process = identify(message["pid"])
            return
        del self._pending[message["id"]]
        if not pending.finished.done():
            pending.finished.set_result(message)

    def close(self) -> None:
        """Closing the socket ends the sandbox, and every command in it."""
        if not self.open:
            return
        self.open = False
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for pending in self._pending.values():
            if not pending.finished.done():
                pending.finished.set_exception(SandboxError("the sandbox ended while a command ran in it", "lost"))
                pending.finished.exception()  # seen: a request nobody waits for any more must not warn
        self._pending.clear()
        for output in self._outputs:
            output.close()
