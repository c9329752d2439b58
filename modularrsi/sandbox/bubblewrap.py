"""The `bubblewrap` sandbox: a private root over the host's own programs, in namespaces of its own.

For tasks whose environment is a plain Dockerfile on a generic base. Starts in tens of milliseconds, needs no daemon and
no root. What it does not give: another distribution than the host's, a disk quota, a kernel of its own; and, for an
ordinary user, other users than root. With `network` it shares the host's network, the host's own services included.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.processes import is_alive
from modularrsi.sandbox.archive import folder_entries
from modularrsi.sandbox.base import ExecResult, Resources, SandboxSpec
from modularrsi.sandbox.bwrap_channel import ENTER
from modularrsi.sandbox.bwrap_machine import Machine, MachinePlan
from modularrsi.sandbox.bwrap_root import (
    LAYOUT,
    default_environment,
    ids_for_this_user,
    make_root,
    make_upper,
    name_host,
    shows_folder,
)
from modularrsi.sandbox.dockerfile import Plan, read_environment
from modularrsi.sandbox.environment import built, carry_out, copy_tree, environment_digest
from modularrsi.sandbox.records import FOLDER, Record, read_record, reap, remove_tree

CACHE = ".environments"
"""Beside the rollouts' scratch folders: environments built once for all of them."""

_SHELL = "/bin/bash"


class BubblewrapSandbox:
    kind = "bubblewrap"

    def __init__(self, spec: SandboxSpec, cache: Path | None = None) -> None:
        self.spec = spec
        self.workdir = spec.workdir or "/"
        self._cache = cache or spec.scratch.parent / CACHE
        self._ids = ids_for_this_user()
        self._env: dict[str, str] = default_environment(spec.env)
        self._machine: Machine | None = None

    @property
    def _folder(self) -> Path:
        return self.spec.scratch / FOLDER

    async def start(self) -> None:
        """Raises SandboxError (unsupported, build_failed, start_failed). Starting a running sandbox does nothing."""
        if self._machine is not None:
            return
        plan = read_environment(self.spec.environment_dir, self.spec.docker_image)
        await asyncio.to_thread(self._clear)
        self._env = default_environment({**plan.env, **self.spec.env})
        self.workdir = self.spec.workdir or plan.workdir
        try:
            await self._start_over(plan)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    async def _start_over(self, plan: Plan) -> None:
        """Start on an overlay over the built environment where the kernel lets us, else on a copy of it."""
        if self._ids.base is not None:
            try:
                await self._start_machine(await self._layers(plan), copy=False)
                return
            except SandboxError as error:
                if "mount overlay" not in str(error):
                    raise
                await self.stop()
        await self._start_machine([await self._environment(plan, ())], copy=True)

    async def _layers(self, plan: Plan) -> list[Path]:
        """The built environment as layers, the topmost first: what the Dockerfile made, over what all have."""
        base = await built(self._cache, f"base-{LAYOUT}", self._build_base) / "root"
        return [await self._environment(plan, (base,)), base] if plan.steps else [base]

    async def _environment(self, plan: Plan, lower: tuple[Path, ...]) -> Path:
        name = self._digest("layer" if lower else "whole")
        return await built(self._cache, name, lambda folder: self._build(plan, folder, lower)) / "root"

    async def _start_machine(self, layers: list[Path], copy: bool) -> None:
        plan = self._machine_plan(() if copy else tuple(layers))
        self._machine = Machine(plan, Record("bubblewrap", self.spec.name, self.spec.labels))
        self._folder.mkdir(parents=True, mode=0o700)
        self._machine.record.write(self._folder)
        if copy:
            await asyncio.to_thread(copy_tree, layers[0], plan.root)
        else:
            _prepare_upper(plan)
        name_host(plan.root, self._ids, self.spec.hostname, self.spec.network)
        await self._machine.start()
        await self._make_folders(layers)

    def _clear(self) -> None:
        """Remove what a killed engine left in this scratch folder."""
        reap(self.spec.scratch)
        record = read_record(self._folder)
        if record is not None and is_alive(record.owner):
            raise SandboxError(f"{self._folder} belongs to a sandbox that runs", "start_failed")
        remove_tree(self._folder)

    def _digest(self, form: str) -> str:
        salt = f"{LAYOUT} {self._ids.base} {form}"
        spec = self.spec
        return environment_digest(spec.environment_dir, spec.environment_digest, spec.docker_image, salt)

    def _machine_plan(self, lower: tuple[Path, ...]) -> MachinePlan:
        spec = self.spec
        return MachinePlan(
            folder=self._folder,
            ids=self._ids,
            resources=spec.resources,
            network=spec.network,
            hostname=spec.hostname,
            group_name=_group_name(spec.name),
            lower=lower,
        )

    async def _make_folders(self, layers: list[Path]) -> None:
        """The contract's folders, as far as the environment lacks them (looking costs less than asking inside)."""
        wanted = ["/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", self.workdir]
        missing = [path for path in wanted if not shows_folder(layers, path)]
        if not missing:
            return
        result = await self._run("/bin/mkdir", "-p", "--", *missing)
        if result.exit_code != 0:
            raise SandboxError(f"the sandbox's folders cannot be made: {result.stderr[-300:]!r}", "start_failed")

    async def _run(self, *argv: str) -> ExecResult:
        return await self._running.run(argv, cwd="/", env=self._env, timeout_sec=60.0)

    async def _build_base(self, folder: Path) -> None:
        (folder / "root").mkdir()
        await asyncio.to_thread(make_root, folder / "root", self._ids)

    async def _build(self, plan: Plan, folder: Path, lower: tuple[Path, ...]) -> None:
        """Make `folder/root`, and carry out the plan's steps inside a machine over it that has no network."""
        work = folder / FOLDER
        work.mkdir()
        name = _group_name(f"build-{self.spec.name}")
        limits = Resources(pids=self.spec.resources.pids)
        machine_plan = MachinePlan(work, self._ids, limits, group_name=name, lower=lower)
        if lower:
            _prepare_upper(machine_plan)
        else:
            machine_plan.root.mkdir()
            await asyncio.to_thread(make_root, machine_plan.root, self._ids)
        name_host(machine_plan.root, self._ids, self.spec.hostname, False)
        if plan.steps:
            await self._carry_out(plan, machine_plan)
        machine_plan.root.rename(folder / "root")
        await asyncio.to_thread(remove_tree, work)

    async def _carry_out(self, plan: Plan, machine_plan: MachinePlan) -> None:
        machine = Machine(machine_plan, Record("bubblewrap", f"build of {self.spec.name}", self.spec.labels))
        try:
            await machine.start()
            env = default_environment({"HOME": "/root"})
            await carry_out(plan, self.spec.environment_dir, machine, env, self.spec.build_timeout_sec)
        finally:
            await asyncio.shield(machine.stop())

    @property
    def _running(self) -> Machine:
        if self._machine is None:
            raise SandboxError("the sandbox is not running", "lost")
        return self._machine

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
        return await self._running.run(
            (_SHELL, "-c", command),
            cwd=cwd or self.workdir,
            env={**self._env, **(env or {})},
            user=user,
            timeout_sec=timeout_sec,
            stdin=stdin,
            output_limit=output_limit,
        )

    def terminal_command(self, user: str | int | None = None) -> list[str]:
        """History expansion is off: `!` in what an agent types is text."""
        argv = (_SHELL, "--login", "+H")
        file = self._running.terminal_plan(argv, self.workdir, self._env, user)
        return [sys.executable, "-I", "-S", "-B", str(ENTER), str(file)]

    async def foreground(self) -> bool | None:
        return self._machine.foreground() if self._machine is not None else None

    async def read_file(self, path: str, max_bytes: int = 1_000_000, user: str | int | None = None) -> bytes:
        """The first `max_bytes` of a regular file. Raises SandboxError (read_failed)."""
        return await self._running.read_file(self._absolute(path), max_bytes, user)

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, append: bool = False, user: str | int | None = None
    ) -> None:
        """Folders on the way are made. Raises SandboxError (write_failed)."""
        await self._running.write_file(self._absolute(path), data, mode, append, user)

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.workdir.rstrip('/')}/{path}"

    async def upload_dir(self, source: Path, target: str) -> None:
        await self._running.put(folder_entries(source), self._absolute(target))

    async def download_dir(self, source: str, target: Path) -> None:
        await self._running.get(self._absolute(source), target)

    async def alive(self) -> bool:
        return self._machine is not None and self._machine.alive()

    async def stop(self) -> None:
        """Raises SandboxError (stop_failed) when a process or folder resists."""
        machine, self._machine = self._machine, None
        if machine is None:
            return
        try:
            await machine.stop()
        finally:
            await asyncio.to_thread(remove_tree, self._folder)


def _prepare_upper(plan: MachinePlan) -> None:
    (plan.folder / "work").mkdir()
    plan.root.mkdir()
    make_upper(plan.root, plan.lower[0], plan.ids)


def _group_name(name: str) -> str:
    """A folder name for control groups: unique, so that a resume never meets the remains of the run before."""
    return f"modularrsi-{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{secrets.token_hex(4)}"
