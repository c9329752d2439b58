"""One running bubblewrap: namespaces over a private root, and what can be done in them.

The sandbox proper (`bubblewrap.py`) adds the task's environment, the contract's paths and the clean-up; building an
environment uses a machine alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from modularrsi.cgroups import Cgroup, Limits, Support, support
from modularrsi.errors import SandboxError
from modularrsi.processes import Process, is_alive, kill_tree, read_stat, send, wait_gone
from modularrsi.sandbox.archive import MAX_BYTES, pack, unpack
from modularrsi.sandbox.base import ExecResult, Resources
from modularrsi.sandbox.bwrap_channel import Channel, Hello, Running, open_socket
from modularrsi.sandbox.bwrap_root import SHOWN_ROOT, Ids, bwrap_arguments, mount_arguments
from modularrsi.sandbox.records import Record
from modularrsi.sandbox.streams import spooled

START_SEC = 30.0
FILE_SEC = 60.0
FOLDER_SEC = 300.0
STOP_SEC = 10.0
_ARGUMENT_BYTES = 131_072
"""Linux passes no longer argument (MAX_ARG_STRLEN, execve(2))."""


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """`folder` holds the private root (`folder/root`) and the machine's own files. `lower`: layers that are shown below
    the private root, the topmost first; the private root then holds only the differences."""

    folder: Path
    ids: Ids
    resources: Resources
    network: bool = False
    hostname: str = "sandbox"
    group_name: str = "modularrsi"
    lower: tuple[Path, ...] = ()

    @property
    def root(self) -> Path:
        return self.folder / "root"


def rlimits(resources: Resources, where: Support) -> dict[str, int]:
    """Limits per process. Those on memory and processes stand in for a control group where there is none.

    In a user namespace of its own RLIMIT_NPROC counts the sandbox's processes only (Linux 5.14). RLIMIT_DATA, unlike
    RLIMIT_AS, lets programs reserve address space that they do not use (Java, Go, Node).
    """
    limits = {"RLIMIT_CORE": 0}
    if resources.storage_mb is not None:
        limits["RLIMIT_FSIZE"] = resources.storage_mb * 1024 * 1024
    if "pids" not in where.controllers:
        limits["RLIMIT_NPROC"] = resources.pids
    if "memory" not in where.controllers and resources.memory_mb is not None:
        limits["RLIMIT_DATA"] = resources.memory_mb * 1024 * 1024
    return limits


@dataclass(slots=True)
class Machine:
    plan: MachinePlan
    record: Record
    _channel: Channel | None = None
    _hello: Hello | None = None
    _group: Cgroup | None = None
    _limits: dict[str, int] = field(default_factory=dict[str, int])

    async def start(self) -> None:
        """Raises SandboxError (unsupported, start_failed)."""
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxError("bubblewrap is not installed: apt-get install bubblewrap", "unsupported")
        where = support()
        self._limits = rlimits(self.plan.resources, where)
        self.record = replace(self.record, group=self._planned_group(where))
        self.record.write(self.plan.folder)
        self._group = self._make_group(where)
        sock, self._hello = await asyncio.to_thread(open_socket, self._helper_plan(bwrap), START_SEC)
        self._channel = Channel(sock)
        self.record = replace(self.record, processes=(self._hello.helper, self._hello.bwrap, self._hello.first))
        self.record.write(self.plan.folder)

    def _planned_group(self, where: Support) -> Cgroup | None:
        if not where.usable:
            return None
        folders = dict.fromkeys(parent / self.plan.group_name for parent in where.parents.values())
        return Cgroup(where.version, tuple(folders))

    def _make_group(self, where: Support) -> Cgroup | None:
        if not where.usable:
            return None
        resources = self.plan.resources
        limits = Limits(resources.memory_mb, resources.pids, resources.cpus)
        try:
            return Cgroup.create(self.plan.group_name, limits, where)
        except OSError as error:
            raise SandboxError(f"the control group cannot be made: {error}", "start_failed") from error

    @property
    def _entry_files(self) -> list[str]:
        return [str(file) for file in self._group.entry_files] if self._group else []

    def _helper_plan(self, bwrap: str) -> dict[str, Any]:
        plan = self.plan
        shown = str(plan.root) if plan.ids.base is None else SHOWN_ROOT
        mounts = mount_arguments(shown)
        return {
            "argv": bwrap_arguments(bwrap, mounts, plan.ids, plan.network, plan.hostname),
            "root": str(plan.root),
            "lower": [str(layer) for layer in plan.lower],
            "shown_root": shown,
            "base_id": plan.ids.base,
            "entry_files": self._entry_files,
            "timeout_sec": START_SEC,
        }

    # -------------------------------------------------------------------------------------------------------- commands

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        user: str | int | None = None,
        timeout_sec: float | None = None,
        stdin: bytes = b"",
        output_limit: int = 1_000_000,
    ) -> ExecResult:
        """Run a program given by absolute path. At its time limit it dies with all it started."""
        if any(len(os.fsencode(part)) >= _ARGUMENT_BYTES for part in argv):
            return ExecResult(126, b"", b"the command is longer than Linux passes on (131,071 bytes)\n")
        request = self._request("exec", user) | {"argv": list(argv), "cwd": cwd, "env": dict(env)}
        with spooled(stdin) as source:
            running = self._begin(request, source, output_limit)
        return await self._result(running, timeout_sec)

    async def _result(self, running: Running, timeout_sec: float | None) -> ExecResult:
        finished = False
        try:
            finished = await running.wait(timeout_sec)
        finally:
            if not finished:  # late, or the caller was cancelled
                await asyncio.shield(self._end(running))
        out, err = running.out.take(), running.err.take()
        truncated = running.out.truncated or running.err.truncated
        if not finished:
            running.out.close()
            running.err.close()
            return ExecResult(None, out, err, timed_out=True, truncated=truncated)
        self._check_trouble(running.outcome)
        status = running.outcome["status"]
        return ExecResult(status if status >= 0 else 128 - status, out, err, truncated=truncated)

    async def _end(self, running: Running) -> None:
        """Kill a command and everything below it. It is a subreaper, so what double-forked is below it too."""
        with contextlib.suppress(SandboxError):  # the whole sandbox has ended: so has the command
            if running.pending.process is None:
                await running.wait(1.0)
            if running.pending.process is not None:
                await asyncio.to_thread(kill_tree, running.pending.process)
                await running.wait(STOP_SEC)

    def _check_trouble(self, outcome: Mapping[str, Any]) -> None:
        trouble = outcome["trouble"]
        if trouble:
            cause = "unsupported" if trouble.startswith("user ") else "lost"
            raise SandboxError(f"the command could not be started: {trouble}", cause)

    def _request(self, operation: str, user: str | int | None) -> dict[str, Any]:
        if self.plan.ids.base is None and user not in (None, 0, "0", "root"):
            message = f"user {user!r}: only root exists in a bubblewrap sandbox that an ordinary user runs"
            raise SandboxError(message, "unsupported")
        return {"op": operation, "user": user, "rlimits": self._limits, "env": {}}

    def _begin(self, request: dict[str, Any], stdin: int, limit: int, stdout: int | None = None) -> Running:
        if self._channel is None:
            raise SandboxError("the sandbox is not running", "lost")
        return self._channel.begin(request, stdin, limit, stdout)

    # ----------------------------------------------------------------------------------------------------------- files

    async def read_file(self, path: str, max_bytes: int, user: str | int | None) -> bytes:
        request = self._request("read", user) | {"path": path, "max_bytes": max_bytes}
        with spooled(b"") as nothing:
            running = self._begin(request, nothing, max_bytes)
        return await self._file_result(running, f"{path} cannot be read", "read_failed")

    async def write_file(self, path: str, data: bytes, mode: int | None, append: bool, user: str | int | None) -> None:
        request = self._request("write", user) | {"path": path, "mode": mode, "append": append}
        with spooled(data) as source:
            running = self._begin(request, source, 0)
        await self._file_result(running, f"{path} cannot be written", "write_failed")

    async def _file_result(self, running: Running, what: str, cause: str) -> bytes:
        try:
            if not await running.wait(FILE_SEC):
                raise SandboxError(f"{what}: not done within {FILE_SEC:.0f} s", cause)
        finally:
            if not running.outcome:
                await asyncio.shield(self._end(running))
        trouble = running.outcome["trouble"]
        if trouble or running.outcome["status"] != 0:
            reason = "unsupported" if trouble.startswith("user ") else cause
            raise SandboxError(f"{what}: {trouble or running.outcome['status']}", reason)
        return running.out.take()

    async def put(self, entries: Iterable[tuple[Path, str]], target: str, mode: int | None = None) -> None:
        """Copy files of the host into the folder `target` (made if missing). Raises SandboxError (upload_failed)."""
        with tempfile.TemporaryFile(dir=self.plan.folder) as archive:
            try:
                await asyncio.to_thread(pack, entries, archive, mode)
            except (OSError, tarfile.TarError) as error:
                raise SandboxError(f"{target}: cannot be packed: {error}", "upload_failed") from error
            archive.seek(0)
            # Two programs of the read-only /usr; `--` and `-C` keep a hostile name from becoming an option.
            script = 'mkdir -p -- "$1" && exec /usr/bin/tar -C "$1" --no-same-owner -xpf -'
            result = await self._shell(script, target, stdin=archive.fileno())
        if result.exit_code != 0:
            raise SandboxError(f"{target} cannot be written: {_why(result)}", "upload_failed")

    async def get(self, source: str, target: Path) -> None:
        """Copy a folder of the sandbox out. Raises SandboxError (download_failed)."""
        with tempfile.TemporaryFile(dir=self.plan.folder) as archive:
            script = 'cd -- "$1" && exec /usr/bin/tar -cf - .'
            result = await self._shell(script, source, stdout=archive.fileno())
            if result.exit_code != 0:
                raise SandboxError(f"{source} cannot be copied out: {_why(result)}", "download_failed")
            archive.seek(0)
            try:
                await asyncio.to_thread(unpack, archive, target)
            except (OSError, ValueError, tarfile.TarError) as error:
                raise SandboxError(f"{source} cannot be copied out: {error}", "download_failed") from error

    async def _shell(self, script: str, folder: str, stdin: int | None = None, stdout: int | None = None) -> ExecResult:
        request = self._request("exec", None) | {
            "argv": ["/bin/sh", "-c", script, "sh", folder],
            "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            "rlimits": {**self._limits, **({"RLIMIT_FSIZE": MAX_BYTES} if stdout is not None else {})},
        }
        with spooled(b"") as nothing:
            running = self._begin(request, nothing if stdin is None else stdin, 10_000, stdout)
        return await self._result(running, FOLDER_SEC)

    # -------------------------------------------------------------------------------------------------------- terminal

    def terminal_plan(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], user: str | int | None) -> Path:
        """Write what the helper needs to be a terminal of this machine; returns the file."""
        if self._hello is None:
            raise SandboxError("the sandbox is not running", "lost")
        file = self.plan.folder / f"terminal-{user or 'root'}.json"
        first = self._hello.first
        request = self._request("enter", user) | {"argv": list(argv), "cwd": cwd, "env": dict(env)}
        request |= {"first": first.pid, "first_start": first.start}
        request |= {"entry_files": self._entry_files, "record": str(self._terminal_record)}
        file.write_text(json.dumps(request))
        return file

    @property
    def _terminal_record(self) -> Path:
        return self.plan.folder / "terminal.pid"

    def foreground(self) -> bool | None:
        """Whether another process group than the shell's has the terminal."""
        try:
            found = json.loads(self._terminal_record.read_text())
        except (OSError, ValueError):
            return None
        stat = read_stat(found["pid"])
        if stat is None or stat.start != found["start"] or stat.tpgid <= 0:
            return None
        return stat.tpgid != stat.pgrp

    # ------------------------------------------------------------------------------------------------------------- end

    def alive(self) -> bool:
        connected = self._channel is not None and self._channel.open
        return connected and self._hello is not None and is_alive(self._hello.first)

    async def stop(self) -> None:
        """End every process and remove the control group. Raises SandboxError (stop_failed)."""
        if self._channel is not None:
            self._channel.close()
        survivors = await asyncio.to_thread(self._stop_processes)
        group, self._group = self._group, None
        gone = group is None or await asyncio.to_thread(group.destroy, STOP_SEC)
        if survivors or not gone:
            left = ", ".join(str(process.pid) for process in survivors) or "a control group"
            raise SandboxError(f"the sandbox does not end: {left} is left", "stop_failed")

    def _stop_processes(self) -> list[Process]:
        if self._hello is None:
            return []
        mine = [self._hello.bwrap, self._hello.first, self._hello.helper]
        left = wait_gone(mine, 2.0)
        for process in left:  # the helper was killed, or hangs: do what it would have done
            with contextlib.suppress(PermissionError):
                send(process, 9)
        return wait_gone(left, STOP_SEC)


def _why(result: ExecResult) -> str:
    if result.timed_out:
        return "not done in time"
    return result.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit code {result.exit_code}"
