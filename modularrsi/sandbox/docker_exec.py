"""Commands in a container: bounded output, an exit code, and an end for everything a command started.

The Engine has no way to end an exec, and it calls an exec finished only when nothing holds its output any more (it
gives up two seconds after the command's end). So a small `sh` program stands around each command:

* it prints a random word before the command (no word: the daemon could not start it, and the output says why) and
  the word with the exit code after it, on both streams: the call returns as soon as both have come, whatever a
  detached child still holds;
* its environment carries a mark (`MODULARRSI_EXEC`) that children inherit. At the time limit, everything in the
  container that has the mark, and everything below it, is killed by a second exec that reads `/proc` with nothing
  but a POSIX shell.

Limit of that: a process that has emptied its environment *and* lost its parent is not found; so is one of a third
user. Such a process ends with the container.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import ExecResult
from modularrsi.sandbox.docker_wire import EngineAddress, RawStream, ask

MARK = "MODULARRSI_EXEC"
_MAX_COMMAND = 131_071
"""Linux passes no longer argument (MAX_ARG_STRLEN, execve(2))."""
_START_SEC = 60.0
_KILL_SEC = 15.0
_POLL_SEC = 1.0
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before another attempt to start a command in a container that had no process left for it."""
_NEARLY = 0.8
_TRAILER_ROOM = 96

_AROUND = """\
printf %s "$1"
if cd -- "$3"; then unset OLDPWD; "$2" -c "$4"; s=$?; else s=126; fi
printf '%s:%d;' "$1" "$s" >&2
printf '%s:%d;' "$1" "$s"
exit "$s"
"""

# Words that the shell itself knows, so that it works in any image: `read` drops the zero bytes of environ(5).
_KILL = """\
marked() {
  while IFS= read -r line || [ -n "$line" ]; do case $line in *"$mark"*) return 0;; esac; done <"/proc/$1/environ"
  return 1
}
parent() { IFS= read -r line <"/proc/$1/stat" && line=${line##*) } && set -- $line && up=$2; }
mark=$1; rounds=0; clean=0
while [ $rounds -lt 20 ]; do
  rounds=$((rounds + 1)); doomed=' '; grown=1
  for d in /proc/[0-9]*; do p=${d#/proc/}; if marked "$p"; then doomed="$doomed$p "; fi; done
  while [ $grown = 1 ]; do
    grown=0
    for d in /proc/[0-9]*; do
      p=${d#/proc/}
      case $doomed in *" $p "*) continue;; esac
      up=0; parent "$p"
      case $doomed in *" $up "*) doomed="$doomed$p "; grown=1;; esac
    done
  done
  # A process in the middle of an execve(2) shows no environment: only finding nothing twice is finding nothing.
  if [ "$doomed" = ' ' ]; then
    clean=$((clean + 1)); [ $clean = 2 ] && exit 0
    sleep 0.02
  else
    clean=0; kill -9 $doomed
  fi
done
exit 1
"""


@dataclass(frozen=True, slots=True)
class Order:
    """One command to run. `user` "" = the image's; `output_limit` is bytes per stream."""

    command: str
    cwd: str
    shell: str = "bash"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    timeout_sec: float | None = None
    stdin: bytes = b""
    output_limit: int = 1_000_000


class Capture:
    """One output stream: keeps the first `limit` bytes, and finds the word before and the trailer after them.

    `code` is the exit code once the trailer `WORD:CODE;` has come, None before.
    """

    def __init__(self, word: bytes, limit: int, opened: bool) -> None:
        self._word, self._limit = word, limit
        self._trailer = re.compile(re.escape(word) + rb":(\d{1,3});")
        self._kept, self._tail = bytearray(), bytearray()
        self._total = 0
        self.received = 0
        self.opened = opened
        self.code: int | None = None

    def feed(self, data: bytes) -> None:
        self.received += len(data)
        if self.code is not None:
            return  # a detached child goes on writing: not this command's output
        self._tail += data
        if not self.opened and not self._open():
            return
        if trailer := self._trailer.search(self._tail):
            self.code = int(trailer[1])
            del self._tail[trailer.start() :]
            self._keep(len(self._tail))
        elif len(self._tail) > _TRAILER_ROOM:
            self._keep(len(self._tail) - _TRAILER_ROOM)

    def _open(self) -> bool:
        if self._tail.startswith(self._word):
            del self._tail[: len(self._word)]
            self.opened = True
        return self.opened

    def _keep(self, count: int) -> None:
        """Move `count` bytes from the tail to what is kept, as far as the limit allows."""
        room = max(0, self._limit - len(self._kept))
        self._kept += self._tail[: min(count, room)]
        self._total += count
        del self._tail[:count]

    def result(self) -> tuple[bytes, bool]:
        """(the output, whether some was cut). Ends the capture."""
        self._keep(len(self._tail))
        return bytes(self._kept), self._total > len(self._kept)


class Execs:
    """Runs commands in one container. `user` is whom a command runs as that names nobody."""

    def __init__(self, address: EngineAddress, container: str, user: str = "0") -> None:
        self._address, self._container, self._user = address, container, user or "0"
        self._numbers = itertools.count(1)

    async def run(self, order: Order) -> ExecResult:
        """Raises `SandboxError`: "lost" for a container that is gone, "unsupported" for an unknown user."""
        if len(order.command.encode("utf-8", "surrogateescape")) > _MAX_COMMAND:
            return ExecResult(126, b"", b"argument list too long: put the command into a file and run that\n")
        if "\0" in order.command:
            return ExecResult(126, b"", b"a command cannot contain a zero byte\n")
        running = _Running(self._address, order, f"{MARK}={next(self._numbers):06d}.")
        try:
            async with asyncio.timeout(order.timeout_sec):
                return await self._patiently(running)
        except TimeoutError:
            running.close()  # the Engine handles no other end in this container while output waits to be read
            await self._kill(running.mark, order.user)
            return running.partial()
        except asyncio.CancelledError:
            running.close()
            await asyncio.shield(self._kill(running.mark, order.user))
            raise
        finally:
            running.close()

    async def _patiently(self, running: _Running) -> ExecResult:
        """Start it again while the runtime finds no process to start it in: the sandbox may be full for a moment.

        One that stays full is the doing of what runs in it, so the command fails there as it would under any shell
        that cannot fork; nothing of it has run. Raises `SandboxError` when the runtime failed for another reason.
        """
        for pause in (*_PAUSES, None):
            try:
                await running.start(self._container)
                return await running.finish()
            except _NotStarted as error:
                if pause is None and not await self._full():
                    raise
                if pause is None:
                    return ExecResult(126, b"", f"no process left to run this in: {error}\n".encode())
                running.close()
            await asyncio.sleep(pause)
        raise AssertionError("the last round returns or raises")

    async def _full(self) -> bool:
        """Whether the container has (almost) as many processes as it may have."""
        stats = await ask(self._address, "GET", f"/containers/{self._container}/stats?stream=false&one-shot=true")
        pids = stats.get("pids_stats") or {}
        return pids.get("current", 0) >= pids.get("limit", float("inf")) * _NEARLY

    async def _kill(self, mark: str, user: str) -> None:
        """Kill what carries the mark. Root cannot read another user's environment without a right that the container
        does not have; so the command's own user looks too, after root has killed what it finds and its children."""
        own = user or self._user
        for who in ("0",) if own in ("0", "root", "0:0", "root:root") else ("0", own):
            with contextlib.suppress(SandboxError):  # a container that is gone has nothing left to kill
                await self.script(_KILL, mark, user=who, timeout_sec=_KILL_SEC)

    async def script(self, script: str, *args: str, user: str = "0", timeout_sec: float = _START_SEC) -> bytes:
        """The standard output of a short `sh` script of ours; no marks, no trailers.

        Raises `SandboxError` when it cannot be run within `timeout_sec`.
        """
        output, word = bytearray(), secrets.token_hex(12).encode()
        argv = ["sh", "-c", f"({script}\n)\nprintf {word.decode()}", "sh", *args]
        try:
            async with asyncio.timeout(timeout_sec):
                body = _exec_body(argv, user, {}, stdin=False)
                made = await ask(self._address, "POST", f"/containers/{self._container}/exec", body)
                stream = await RawStream.start(self._address, made["Id"])
                with contextlib.closing(stream):
                    async for kind, data in stream.frames():
                        output += data if kind == 1 else b""
                        if output.endswith(word):  # the stream's own end may come seconds later
                            return bytes(output[: -len(word)])
        except TimeoutError as error:
            raise SandboxError(f"the container does not answer within {timeout_sec:.0f} s", "lost") from error
        said = output.decode("utf-8", "replace").strip()[-300:]
        raise SandboxError(f"the container runs no commands: {said or 'it has stopped'}", "lost")


class _NotStarted(SandboxError):
    """The runtime could not start the first process of an exec in a container that it knows: nothing has run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "lost")


class _Running:
    """One exec from its start to its end."""

    def __init__(self, address: EngineAddress, order: Order, mark: str) -> None:
        self._address, self._order, self.mark = address, order, mark
        self._word = secrets.token_hex(12)
        self._stream: RawStream | None = None
        self._feeding: asyncio.Task[None] | None = None
        self._id = ""
        self._seen = 0

    async def start(self, container: str) -> None:
        order = self._order
        self._out = Capture(self._word.encode(), order.output_limit, opened=False)
        self._err = Capture(self._word.encode(), order.output_limit, opened=True)
        name, _, value = self.mark.partition("=")
        around = ["sh", "-c", _AROUND, "sh", self._word, order.shell, order.cwd, order.command]
        body = _exec_body(around, order.user, {**order.env, name: value}, stdin=bool(order.stdin))
        try:
            async with asyncio.timeout(_START_SEC):
                made = await ask(self._address, "POST", f"/containers/{container}/exec", body, _START_SEC)
                self._id = made["Id"]
                self._stream = await RawStream.start(self._address, self._id)
        except TimeoutError as error:
            raise SandboxError(f"the Docker Engine starts no exec within {_START_SEC:.0f} s", "lost") from error
        if order.stdin:
            self._feeding = asyncio.create_task(self._stream.feed(order.stdin))

    async def finish(self) -> ExecResult:
        """Read until both trailers have come, or the stream has ended, or the command's shell is gone."""
        assert self._stream is not None
        reading = asyncio.create_task(self._read(self._stream))
        try:
            while not (await asyncio.wait({reading}, timeout=_POLL_SEC))[0]:
                if self._quiet() and not (await self._inspect())["Running"] and self._quiet():
                    break
        finally:
            reading.cancel()
            await asyncio.wait({reading})
        code = self._out.code if self._out.code is not None else self._err.code
        return self._result(code if code is not None else await self._exit_code())

    def _quiet(self) -> bool:
        """Whether nothing has come since the last question."""
        before, self._seen = self._seen, self._out.received + self._err.received
        return before == self._seen

    async def _read(self, stream: RawStream) -> None:
        async for kind, data in stream.frames():
            (self._out if kind == 1 else self._err).feed(data)
            if self._out.code is not None and self._err.code is not None:
                return

    async def _inspect(self) -> dict[str, object]:
        return await ask(self._address, "GET", f"/exec/{self._id}/json")

    async def _exit_code(self) -> int:
        """Of a command whose shell was killed, or never started."""
        state = await self._inspect()
        if not self._out.opened:
            raise self._fault(self._out.result()[0])
        code = state["ExitCode"]
        return code if isinstance(code, int) else 137

    def _fault(self, said: bytes) -> SandboxError:
        text = said.decode("utf-8", "replace").strip()[-300:]
        if "unable to find user" in text or "no matching entries" in text:
            return SandboxError(f"user {self._order.user!r} does not exist in the container", "unsupported")
        if "unable to start container process" in text:
            return _NotStarted(f"the container runs no commands: {text}")
        return SandboxError(f"the container runs no commands: {text or 'it has stopped'}", "lost")

    def _result(self, code: int | None) -> ExecResult:
        (out, out_cut), (err, err_cut) = self._out.result(), self._err.result()
        return ExecResult(code, out, err, timed_out=code is None, truncated=out_cut or err_cut)

    def partial(self) -> ExecResult:
        """What came until the time limit."""
        return self._result(None)

    def close(self) -> None:
        if self._feeding:
            self._feeding.cancel()
        if self._stream:
            self._stream.close()


def _exec_body(argv: list[str], user: str, env: Mapping[str, str], *, stdin: bool) -> dict[str, object]:
    """The body of `POST /containers/{id}/exec`. The working folder is `/`: the agent may have removed its own."""
    return {
        "Cmd": argv, "User": user, "Env": [f"{name}={value}" for name, value in env.items()], "WorkingDir": "/",
        "AttachStdin": stdin, "AttachStdout": True, "AttachStderr": True, "Tty": False, "Privileged": False,
    }

