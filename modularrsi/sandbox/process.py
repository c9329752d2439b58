"""The `process` sandbox: no isolation. For tasks you trust, on machines that have nothing better.

Commands run as the user who runs the engine. `/app`, `/logs`, `/tests`, `/solution`, `/tmp` and the task's own working
folder become private folders, by rewriting those paths where they stand in commands, in the Dockerfile's RUN and in
uploaded text files.

What is not covered: paths in what is typed into the terminal, in files written byte for byte (`write_file`), made at
run time (`"$base"/app`) or compiled into programs; network, memory, processor and process limits; other users; the
hostname. A process that empties its environment and leaves its parent is not found at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from modularrsi.errors import SandboxError
from modularrsi.processes import Process, descendants, identify, is_alive, kill_all, kill_group, marked, read_stat
from modularrsi.sandbox.archive import MAX_BYTES, MAX_FILES, folder_entries
from modularrsi.sandbox.base import Availability, ExecResult, SandboxSpec
from modularrsi.sandbox.dockerfile import Copy, Plan, Workdir, read_environment
from modularrsi.sandbox.environment import carry_out
from modularrsi.sandbox.records import FOLDER, Record, read_record, reap, remove_tree
from modularrsi.sandbox.streams import Output, spooled

MARK = "MODULARRSI_SANDBOX"
_EXEC_MARK = "MODULARRSI_EXEC"
_PRIVATE = ("app", "logs", "solution", "tests", "tmp")
_HOST = frozenset(
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "opt", "proc", "run", "sbin", "sys", "usr", "var"]
)
_TEXT_BYTES = 1_000_000
_STOP_SEC = 5.0


class ProcessSandbox:
    kind = "process"

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.workdir = spec.workdir or "/"
        self._token = secrets.token_hex(8)
        self._private: tuple[str, ...] = _PRIVATE
        self._env: dict[str, str] = {}
        self._groups: set[Process] = set()
        self._outputs: set[Output] = set()
        self._running = False

    @property
    def _folder(self) -> Path:
        return self.spec.scratch / FOLDER

    @property
    def _root(self) -> Path:
        return self._folder / "root"

    async def start(self) -> None:
        """Raises SandboxError (unsupported, build_failed, start_failed)."""
        if self._running:
            return
        plan = read_environment(self.spec.environment_dir, self.spec.docker_image)
        self._private = tuple(sorted({*_PRIVATE, *_top_folders(plan), *self._own_top()}))
        await asyncio.to_thread(self._clear)
        for name in (*self._private, "home", "logs/agent", "logs/verifier", "logs/artifacts"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        Record("process", self.spec.name, self.spec.labels, mark=self._mark).write(self._folder)
        self._running = True
        try:
            self.workdir = self.spec.workdir or plan.workdir
            await carry_out(plan, self.spec.environment_dir, self, {}, self.spec.build_timeout_sec)
            self._env = {**plan.env, **self.spec.env}
            self._host_path(self.workdir).mkdir(parents=True, exist_ok=True)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    @property
    def _mark(self) -> str:
        return f"{MARK}={self._token}"

    def _clear(self) -> None:
        reap(self.spec.scratch)
        record = read_record(self._folder)
        if record is not None and is_alive(record.owner):
            raise SandboxError(f"{self._folder} belongs to a sandbox that runs", "start_failed")
        remove_tree(self._folder)

    def _own_top(self) -> set[str]:
        return _tops([self.spec.workdir]) if self.spec.workdir else set()

    # ----------------------------------------------------------------------------------------------------------- paths

    def rewrite(self, text: str) -> str:
        """Replace the private folders' paths in a text."""
        names = "|".join(re.escape(name) for name in self._private)
        found = re.compile(rf"(?<![\w./$}}~-])/({names})(?![\w-]|\.\w)")
        return found.sub(lambda match: f"{self._root}/{match[1]}", text)

    def _host_path(self, path: str) -> Path:
        """Where a path of the sandbox lies; SandboxError (unsupported) for one that is not private."""
        pure = PurePosixPath(path if path.startswith("/") else f"{self.workdir}/{path}")
        parts = pure.parts[1:]
        if not parts:
            return self._root
        if ".." in parts or parts[0] not in self._private:
            raise SandboxError(f"{path}: the process sandbox has no private folder for it", "unsupported")
        return self._root.joinpath(*parts)

    def _cwd(self, path: str) -> Path:
        try:
            return self._host_path(path)
        except SandboxError:
            return Path(path)

    # -------------------------------------------------------------------------------------------------------- commands

    async def exec(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout_sec: float | None = None,
        stdin: bytes = b"",
        output_limit: int = 1_000_000,
    ) -> ExecResult:
        """`output_limit` holds for each of the two streams."""
        _check_user(user)
        shell = shutil.which("bash") or "/bin/sh"
        variables = {**self._env, **(env or {})}
        argv = (shell, "-c", command)
        return await self._run(argv, cwd or self.workdir, variables, timeout_sec, stdin, output_limit)

    async def run(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], timeout_sec: float | None = None
    ) -> ExecResult:
        """A step of the build."""
        return await self._run(argv, cwd, env, timeout_sec, b"", 1_000_000)

    async def _run(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        timeout_sec: float | None,
        stdin: bytes,
        output_limit: int,
    ) -> ExecResult:
        if not self._running:
            raise SandboxError("the sandbox is not running", "lost")
        mark = secrets.token_hex(8)
        folder = self._cwd(cwd)
        out, err = Output(output_limit), Output(output_limit)
        self._outputs |= {out, err}
        try:
            with spooled(stdin) as source:
                child = await asyncio.create_subprocess_exec(
                    *map(self.rewrite, argv),
                    stdin=source,
                    stdout=out.writer,
                    stderr=err.writer,
                    cwd=folder,
                    env=self._environment(env) | {_EXEC_MARK: mark},
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            return ExecResult(126, b"", f"{argv[0]}: {error}\n".encode())
        finally:
            out.close_writer()
            err.close_writer()
        return await self._result(child, mark, timeout_sec, out, err)

    async def _result(
        self, child: asyncio.subprocess.Process, mark: str, timeout_sec: float | None, out: Output, err: Output
    ) -> ExecResult:
        process = identify(child.pid)
        if process is not None:
            self._groups.add(process)
        finished = False
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), timeout_sec)
                finished = True
        finally:
            if not finished:
                await asyncio.shield(asyncio.to_thread(_kill, child.pid, f"{_EXEC_MARK}={mark}"))
                await asyncio.shield(child.wait())
        data, errors = out.take(), err.take()
        truncated = out.truncated or err.truncated
        code = child.returncode if finished else None
        code = 128 - code if code is not None and code < 0 else code
        return ExecResult(code, data, errors, timed_out=not finished, truncated=truncated)

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self._root / "home"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **{name: self.rewrite(value) for name, value in extra.items()},
            MARK: self._token,
        }

    # -------------------------------------------------------------------------------------------------------- terminal

    def terminal_command(self, user: str | int | None = None) -> list[str]:
        """An interactive login shell in the private working folder; what is typed into it is not rewritten."""
        _check_user(user)
        variables = [f"{name}={value}" for name, value in self._environment(self._env).items()]
        shell = shutil.which("bash") or "/bin/sh"
        history = " +H" if shell.endswith("bash") else ""
        script = f"echo $$ >{shlex.quote(str(self._terminal))}; exec {shlex.quote(shell)} --login{history}"
        start = f"cd {shlex.quote(str(self._cwd(self.workdir)))} && {script}"
        return ["/usr/bin/env", "-i", *variables, "/bin/sh", "-c", start]

    @property
    def _terminal(self) -> Path:
        return self._folder / "terminal.pid"

    async def foreground(self) -> bool | None:
        try:
            found = read_stat(int(self._terminal.read_text()))
        except (OSError, ValueError):
            return None
        if found is None or found.tpgid <= 0:
            return None
        return found.tpgid != found.pgrp

    # ----------------------------------------------------------------------------------------------------------- files

    async def read_file(self, path: str, max_bytes: int = 1_000_000, user: str | int | None = None) -> bytes:
        """The first `max_bytes` of a regular file. Raises SandboxError (read_failed)."""
        _check_user(user)
        return await asyncio.to_thread(_read, self._host_path(path), path, max_bytes)

    async def write_file(
        self, path: str, data: bytes, mode: int | None = None, append: bool = False, user: str | int | None = None
    ) -> None:
        """Byte for byte: nothing is rewritten. Raises SandboxError (write_failed)."""
        _check_user(user)
        await asyncio.to_thread(_write, self._host_path(path), path, data, mode, append)

    async def upload_dir(self, source: Path, target: str) -> None:
        """Paths in text files are rewritten. Raises SandboxError (upload_failed)."""
        await self.put(folder_entries(source), target)

    async def put(self, entries: Iterable[tuple[Path, str]], target: str, mode: int | None = None) -> None:
        place = self._host_path(target)
        try:
            await asyncio.to_thread(self._put, entries, place, mode)
        except OSError as error:
            raise SandboxError(f"{target} cannot be written: {error}", "upload_failed") from error

    def _put(self, entries: Iterable[tuple[Path, str]], place: Path, mode: int | None) -> None:
        place.mkdir(parents=True, exist_ok=True)
        for path, name in entries:
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                (place / name).unlink(missing_ok=True)
                (place / name).symlink_to(self.rewrite(str(path.readlink())))
            elif stat.S_ISDIR(info.st_mode):
                (place / name).mkdir(exist_ok=True)
                (place / name).chmod(stat.S_IMODE(info.st_mode) if mode is None else mode)
            elif stat.S_ISREG(info.st_mode):
                (place / name).write_bytes(self._rewritten(path.read_bytes()))
                (place / name).chmod(stat.S_IMODE(info.st_mode) if mode is None else mode)

    def _rewritten(self, data: bytes) -> bytes:
        if len(data) > _TEXT_BYTES or b"\0" in data:
            return data
        try:
            return self.rewrite(data.decode()).encode()
        except UnicodeDecodeError:
            return data

    async def download_dir(self, source: str, target: Path) -> None:
        try:
            await asyncio.to_thread(_copy_out, self._host_path(source), target)
        except (OSError, ValueError) as error:
            raise SandboxError(f"{source} cannot be copied out: {error}", "download_failed") from error

    # ------------------------------------------------------------------------------------------------------------- end

    async def alive(self) -> bool:
        return self._running

    async def stop(self) -> None:
        """Raises SandboxError (stop_failed)."""
        if not self._running:
            return
        self._running = False
        left = await asyncio.to_thread(self._end)
        for output in self._outputs:
            output.close()
        await asyncio.to_thread(remove_tree, self._folder)
        if left:
            raise SandboxError(f"processes {[process.pid for process in left]} do not end", "stop_failed")

    def _end(self) -> list[Process]:
        for leader in self._groups:
            if is_alive(leader) or not Path("/proc/self").exists():
                with contextlib.suppress(ValueError, PermissionError):
                    kill_group(leader.pid)
        return kill_all(lambda: marked(self._mark.encode()), _STOP_SEC)


def process_availability() -> Availability:
    return Availability(
        kind="process",
        usable=True,
        detail="runs commands as you, in private folders found by rewriting paths",
        isolation="none: for trusted tasks only",
    )


def _tops(paths: Iterable[str]) -> set[str]:
    tops = {PurePosixPath(path).parts[1] for path in paths if len(PurePosixPath(path).parts) > 1}
    for top in tops & _HOST:
        raise SandboxError(f"the task puts files under /{top}, which the process sandbox does not cover", "unsupported")
    return tops


def _top_folders(plan: Plan) -> set[str]:
    targets = [step.target for step in plan.steps if isinstance(step, Copy)]
    return _tops([*targets, *(step.path for step in plan.steps if isinstance(step, Workdir))])


def _check_user(user: str | int | None) -> None:
    mine = {os.geteuid(), str(os.geteuid()), *(["root"] if os.geteuid() == 0 else [])}
    if user is not None and user not in mine:
        raise SandboxError(f"user {user!r}: the process sandbox runs everything as you", "unsupported")


def _kill(pid: int, mark: str) -> None:
    process = identify(pid)
    if process is None:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.killpg(pid, signal.SIGKILL)  # no /proc: the group is all that can be found
    kill_all(lambda: [*([process] if process else []), *descendants(pid), *marked(mark.encode())], _STOP_SEC)


def _read(place: Path, path: str, max_bytes: int) -> bytes:
    try:
        if not place.is_file():
            raise FileNotFoundError(2, "no regular file of this name")
        with place.open("rb") as file:
            return file.read(max_bytes)
    except OSError as error:
        raise SandboxError(f"{path} cannot be read: {error.strerror}", "read_failed") from error


def _write(place: Path, path: str, data: bytes, mode: int | None, append: bool) -> None:
    try:
        if place.exists() and not place.is_file():
            raise OSError(21, "not a regular file")
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab" if append else "wb") as file:
            file.write(data)
        if mode is not None:
            place.chmod(mode)
    except OSError as error:
        raise SandboxError(f"{path} cannot be written: {error.strerror}", "write_failed") from error


def _copy_out(source: Path, target: Path) -> None:
    """Regular files and folders only, within the bounds that hold for every sandbox."""
    if not source.is_dir():
        raise FileNotFoundError(2, "no such folder")
    target.mkdir(parents=True, exist_ok=True)
    left, count = MAX_BYTES, 0
    for path, name in folder_entries(source):
        info = path.lstat()
        count, left = count + 1, left - info.st_size
        if count > MAX_FILES or left < 0:
            raise ValueError(f"more than {MAX_FILES} files or {MAX_BYTES} bytes")
        if stat.S_ISDIR(info.st_mode):
            (target / name).mkdir(exist_ok=True)
        elif stat.S_ISREG(info.st_mode):
            shutil.copyfile(path, target / name, follow_symlinks=False)
            (target / name).chmod(stat.S_IMODE(info.st_mode) & 0o777 | 0o600)
