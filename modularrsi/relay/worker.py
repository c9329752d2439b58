"""One worker in a container of its own, on this process's three streams (`start.relay_command("worker", plan)`).

The plan: {"engine": "unix://…" | "tcp://host:port", "name": of the container, "container": the body of
POST /containers/create, "files": [[folder here, path below /cage], …]}. The files are copied in before the start, so
that the Engine may be anywhere; `/cage` must be a volume of the container.

It ends with the container's own exit status, with `BROKEN` when the Engine failed (a container that says that itself
ends with 1), and with the container whenever this process or its parent ends. For that a forked guard waits for this
program's end, however it comes, and removes the container; it keeps standard error open until that is done.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import socket
import sys
import tarfile
import time

from modularrsi.relay.engine import BLOCK, Engine, Failed, write

BROKEN, KILLED = 125, 137
FOLDER = "/cage"
_LOOK_SEC = 1.0
_REMOVE_TRIES = 5
_HEADER = 8  # of a frame: stream number, three zeros, length (Docker Engine API, ContainerAttach)


def archive(folders: list[list[str]]) -> bytes:
    """The folders as a tar of root's files that everybody can read. Byte code goes along for packages, not links."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w") as tar:
        for source, target in folders:
            tar.add(source, target, filter=_plain)
    return result.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isfile() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member


class Container:
    """A created container, known by its name: that is what the guard has from the beginning."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name

    def start(self, body: dict, files: list[list[str]]) -> tuple[socket.socket, bytes]:
        """Make, fill, attach, start: its stream, and what of it came together with the header."""
        self.engine.ask("POST", f"/containers/create?name={self.name}", body)
        self.engine.put(f"/containers/{self.name}/archive?path={FOLDER}", archive(files))
        stream, first = self.engine.attach(f"/containers/{self.name}/attach?stream=1&stdin=1&stdout=1&stderr=1")
        self.engine.ask("POST", f"/containers/{self.name}/start")
        stream.settimeout(None)
        return stream, first

    def status(self) -> int:
        """Its exit status; that of a killed one when it has closed its output and goes on."""
        try:
            return int(self.engine.ask("POST", f"/containers/{self.name}/wait")["StatusCode"])
        except TimeoutError:
            return KILLED

    def remove(self) -> None:
        """With its volume. The first tries may come before the Engine has made what this program asked for."""
        for _ in range(_REMOVE_TRIES):
            try:
                self.engine.ask("DELETE", f"/containers/{self.name}?force=1&v=1")
                return
            except (Failed, OSError, ValueError) as error:
                if getattr(error, "status", 0) == 0:
                    return  # no Engine is left to ask
            time.sleep(0.3)


def guard(container: Container) -> tuple[int, int]:
    """Fork the process that removes the container: its pid, and the pipe whose end it waits for."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(out)
        return pid, into
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.close(into)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.read(out, 1)
        container.remove()
    finally:
        os._exit(0)


class Frames:
    """Takes the frames of a stream apart and writes what they hold to standard output and error, as it comes."""

    def __init__(self) -> None:
        self.header = b""
        self.target, self.left = 1, 0

    def feed(self, data: bytes) -> None:
        while data:
            if not self.left:
                missing = _HEADER - len(self.header)
                self.header, data = self.header + data[:missing], data[missing:]
                if len(self.header) < _HEADER:
                    return
                self.left = int.from_bytes(self.header[4:], "big")
                self.target = 2 if self.header[0] == 2 else 1
                self.header = b""
                continue
            part, data = data[: self.left], data[self.left :]
            self.left -= len(part)
            write(self.target, part)


def copy(stream: socket.socket, first: bytes, parent: int) -> bool:
    """Copy both ways until the container's stream ends (True) or the parent has gone (False).

    Never waits for the container to take input: it may itself be waiting for its output to be taken.
    """
    frames = Frames()
    frames.feed(first)
    stream.setblocking(False)
    waiting, listening, ended = bytearray(), True, False
    while os.getppid() == parent:
        readable: list[socket.socket | int] = [stream]
        if listening and len(waiting) < BLOCK:
            readable.append(0)
        ready, writable, _ = select.select(readable, [stream] if waiting else [], [], _LOOK_SEC)
        if stream in ready:
            data = stream.recv(BLOCK)
            if not data:
                return True
            frames.feed(data)
        if 0 in ready:
            data = os.read(0, BLOCK)
            waiting += data
            listening = bool(data)
        if stream in writable:
            del waiting[: stream.send(waiting)]
        if not listening and not waiting and not ended:
            ended = True
            with contextlib.suppress(OSError):  # it has ended itself
                stream.shutdown(socket.SHUT_WR)
    return False


def run(plan: dict) -> int:
    parent = os.getppid()
    container = Container(Engine(plan["engine"]), plan["name"])
    guardian, pipe = guard(container)
    try:
        stream, first = container.start(plan["container"], plan["files"])
        with stream:
            if not copy(stream, first, parent):
                return KILLED
        os.close(1)  # as the worker has, even if it goes on running
        status = container.status()
        return 1 if status == BROKEN else status
    finally:
        os.close(pipe)
        os.waitpid(guardian, 0)


def main() -> int:
    try:
        return run(json.loads(sys.argv[1]))
    except (Failed, OSError, KeyError, ValueError) as error:
        print(error, file=sys.stderr)
        return BROKEN
