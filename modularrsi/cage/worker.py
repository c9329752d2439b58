"""The engine's handle on one worker process: start it inside a cage, exchange lines, end it for good.

Everything that comes from a worker is hostile: lines are bounded while they are read, its standard error is kept only
as a short tail, and ending it means SIGKILL to its whole process group and cgroup, never a request.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
from collections import deque
from pathlib import Path
from typing import Any

from harness import wire
from harness.errors import WireError
from modularrsi.cage.base import READY, Cage, CageLimits, CageSpec
from modularrsi.cgroups import Cgroup, Limits, support
from modularrsi.errors import SandboxError

GROUP_PREFIX = "mrsi-worker-"
"""Control groups of workers are named by this and the worker's name."""

_STDERR_TAIL = 8_192

# Enter the groups named before `--`, then become the command after it: nothing runs outside them, not for a moment.
_ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 97; shift; done; shift; exec "$@"'
_KILLED = (signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGSYS)
_START_WAIT = 60.0
_KILL_WAIT = 10.0
_CGROUP_WAIT = 20.0
_EMPTY_WAIT = 20.0


class WorkerGone(Exception):
    """The worker cannot be talked to any more. `cause`: worker_crashed, worker_killed, worker_stalled."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Worker:
    """One caged `harness.worker`. Use as an async context manager: leaving it kills whatever is still there."""

    def __init__(self, cage: Cage, library: Path, limits: CageLimits, name: str) -> None:
        self._cage, self._library, self._limits, self._name = cage, library, limits, name
        self._process: asyncio.subprocess.Process | None = None
        self._cgroup: Cgroup | None = None
        self._stderr: deque[bytes] = deque()
        self._drain: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Worker:
        try:
            await self._start()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def _start(self) -> None:
        argv = self._cage.argv(CageSpec(self._name, self._library, self._limits))
        self._cgroup = None if self._cage.own_limits else _group(self._name, self._limits)
        if self._cgroup is not None:
            argv = ["/bin/sh", "-c", _ENTER, "enter", *map(str, self._cgroup.entry_files), "--", *argv]
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=wire.MAX_LINE_BYTES,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        self._drain = asyncio.create_task(self._keep_stderr())
        await self._ready()

    async def _ready(self) -> None:
        """Wait until the walls stand. Raises SandboxError (start_failed): no code of the library has run yet."""
        stdout = self._child().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(_START_WAIT):
                line = await stdout.readline()
        except TimeoutError:
            why = f"nothing came of it in {_START_WAIT:.0f} s"
        except ValueError:
            why = "it answered with nonsense"
        else:
            if line == READY.encode():
                return
            why = str(await self._gone())
        raise SandboxError(f"the cage {self._cage.kind} could not be started: {why}", "start_failed")

    async def send(self, message: dict[str, Any]) -> None:
        """Write one line. Raises WorkerGone when the worker has closed its input, SandboxError when the cage broke."""
        stdin = self._child().stdin
        assert stdin is not None
        try:
            stdin.write(wire.encode(message))
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._gone() from None

    async def receive(self, patience: float) -> dict[str, Any]:
        """The next line as an object, within `patience` seconds.

        Raises WireError for a line that is too long or not a JSON object, WorkerGone when there is none, and
        SandboxError (lost) when it is the cage that broke.
        """
        stdout = self._child().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(patience):
                line = await stdout.readline()
        except TimeoutError:
            raise WorkerGone("worker_stalled", f"the worker said nothing for {patience:.0f} s") from None
        except ValueError as error:
            raise WireError(f"a line of more than {wire.MAX_LINE_BYTES} bytes") from error
        if not line.endswith(b"\n"):
            raise await self._gone()
        return wire.decode(line)

    async def kill(self) -> None:
        """End the worker and everything it started. Idempotent, bounded in time."""
        process = self._process
        if process is not None and process.returncode is None:
            with _already_gone():
                os.killpg(process.pid, signal.SIGKILL)
            # Its end is only noticed once all it has written is read: a flood is read to its end and thrown away.
            ends = [asyncio.ensure_future(work) for work in (process.wait(), _discard(process.stdout))]
            await asyncio.wait(ends, timeout=_KILL_WAIT)
            for end in ends:
                end.cancel()
        if self._cgroup is not None:
            cgroup, self._cgroup = self._cgroup, None
            await asyncio.to_thread(cgroup.destroy, _CGROUP_WAIT)
        if self._drain is not None:
            await asyncio.wait([self._drain], timeout=_EMPTY_WAIT)  # its end: nothing is left inside
            self._drain.cancel()

    def stderr_tail(self) -> str:
        return b"".join(self._stderr)[-_STDERR_TAIL:].decode("utf-8", "replace")

    def _child(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("the worker has not been started")
        return self._process

    async def _keep_stderr(self) -> None:
        stderr = self._child().stderr
        assert stderr is not None
        while chunk := await stderr.read(4_096):
            self._stderr.append(chunk)
            while len(self._stderr) > 3:
                self._stderr.popleft()

    async def _gone(self) -> WorkerGone | SandboxError:
        """Why the stream ended: what the exit status says, with the last line of the standard error."""
        process = self._child()
        try:
            async with asyncio.timeout(_KILL_WAIT):
                code = await process.wait()
                if self._drain is not None:
                    await asyncio.wait([self._drain], timeout=1.0)
        except TimeoutError:
            return WorkerGone("worker_stalled", "the worker closed its output and goes on running")
        last = (self.stderr_tail().strip().splitlines() or ["no message"])[-1][:300]
        if code == self._cage.broken_status:
            return SandboxError(f"the cage {self._cage.kind} broke: {last}", "lost")
        ended_by = -code if code < 0 else code - 128  # a shell, bubblewrap and Docker say it as 128 + signal
        cause = "worker_killed" if ended_by in _KILLED else "worker_crashed"
        return WorkerGone(cause, f"the worker ended with status {code}: {last}")


def _group(name: str, limits: CageLimits) -> Cgroup | None:
    """A control group for the worker, or None where there are none: the rlimits and the filter of its boot code hold
    everywhere."""
    where = support()
    if not where.usable:
        return None
    # Unique, so that two workers of one name can never share a group, and the end of one never be that of the other.
    safe = GROUP_PREFIX + re.sub(r"[^A-Za-z0-9_-]", "_", name)[-80:] + f"-{secrets.token_hex(3)}"
    wanted = Limits(memory_mb=limits.memory_bytes // (1024 * 1024), pids=limits.pids + 4, cpus=1.0)
    try:
        return Cgroup.create(safe, wanted, where)
    except OSError:
        return None


def reap_workers(prefix: str) -> list[str]:
    """Kill and remove the control groups of workers whose names begin with `prefix`; their names."""
    where = support()
    names = {path.name for parent in where.parents.values() for path in parent.glob(f"{GROUP_PREFIX}{prefix}*")}
    for name in names:
        Cgroup(where.version, tuple({parent / name for parent in where.parents.values()})).destroy(_CGROUP_WAIT)
    return sorted(names)


async def _discard(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(65_536):
        pass


class _already_gone:
    """Suppresses the error of signalling a process group that has just ended."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, ProcessLookupError)


def start_message(task: Any, limits: Any, library: str, composition: dict[str, Any] | None) -> dict[str, Any]:
    """The first line the worker gets (`harness.wire`)."""
    return json.loads(json.dumps({
        "type": "start", "protocol": wire.PROTOCOL, "task": task, "limits": limits,
        "library": library, "composition": composition,
    }))
