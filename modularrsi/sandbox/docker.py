"""The `docker` sandbox: one container per rollout.

Isolation. The container has its own files, processes, network, IPC and host name, and limits on memory (no swap),
CPU and processes. No folder of the host and no socket is mounted; without `network` there is a loopback and nothing
else; with it, containers do not reach each other.

Rights. Tasks install packages, change owners, run services on low ports and use `su` and `sudo`, so the container keeps
Docker's default capabilities except MKNOD (device nodes) and, with a network, NET_RAW (forged packets; `ping` works
without it). `no-new-privileges` is not set: it breaks `su` and `sudo` for images whose user is not root. seccomp and
AppArmor stay at Docker's defaults. There is no limit on disk space (`storage_mb`): most storage drivers have none.

The first process is Docker's init (it reaps what is orphaned) with a shell that waits, whatever the image's own
entrypoint and health check are.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modularrsi.errors import SandboxError
from modularrsi.relay.start import relay_command
from modularrsi.sandbox import docker_files
from modularrsi.sandbox.base import ExecResult, SandboxSpec
from modularrsi.sandbox.docker_client import Engine, connect
from modularrsi.sandbox.docker_exec import Execs, Order
from modularrsi.sandbox.docker_image import ensure_image
from modularrsi.sandbox.docker_reaper import LABEL, remove_container, remove_networks
from modularrsi.sandbox.docker_terminal import foreground
from modularrsi.sandbox.docker_wire import ask

NETWORK = "modularrsi-egress"
_KEEP = "trap : TERM; while :; do sleep 3600 & wait; done"
_SETUP = """\
mkdir -p /logs/agent /logs/verifier /logs/artifacts /tests && chmod 777 /logs/agent /logs/verifier /logs/artifacts
command -v bash
"""
_SETUP_SEC = 60.0
_CREATE_SEC = 60.0
_PROBE_SEC = 5.0


class DockerSandbox:
    """Implements `modularrsi.sandbox.base.Sandbox`."""

    kind = "docker"

    def __init__(self, spec: SandboxSpec) -> None:
        self.workdir = spec.workdir or "/"
        self._spec = spec
        self._name = container_name(spec.name)
        self._engine: Engine | None = None
        self._container: Any = None
        self._execs: Execs | None = None
        self._shell = "sh"
        self._state = spec.scratch / f"terminal-{self._name}.json"

    async def start(self) -> None:
        if self._execs is not None:
            return
        self._engine = engine = await connect()
        image = await ensure_image(engine, self._spec)
        creation = asyncio.create_task(
            engine.call(f"container {self._name}", "start_failed", lambda: self._create(engine, image), _CREATE_SEC)
        )
        try:
            self._container = await asyncio.shield(creation)
            await engine.call(f"container {self._name}", "start_failed", self._container.start, _CREATE_SEC)
            await self._prepare(engine)
        except BaseException:
            # A cancelled thread goes on: what it makes must be known to be removed.
            await asyncio.wait({creation})
            if not creation.cancelled() and creation.exception() is None:
                self._container = creation.result()
            with contextlib.suppress(SandboxError):  # the reason for the failed start matters more
                await asyncio.shield(self.stop())
            raise

    def _create(self, engine: Engine, image: str) -> Any:
        """A new container, in place of one of the same name that a killed run has left."""
        options = container_options(self._spec, self._name, engine.cpus)
        if self._spec.network:
            _ensure_network(engine)
        try:
            return engine.client.containers.create(image, **options)
        except engine.errors.APIError as error:
            if error.status_code != 409:
                raise
        old = engine.client.containers.get(self._name)
        if old.labels.get(LABEL) != "sandbox":
            raise SandboxError(f"a container that is not ours is called {self._name}", "start_failed")
        old.remove(force=True, v=True)
        return engine.client.containers.create(image, **options)

    async def _prepare(self, engine: Engine) -> None:
        config = (await self._inspect(engine))["Config"]
        self.workdir = config.get("WorkingDir") or "/"
        execs = Execs(engine.address, self._container.id, config.get("User") or "0")
        try:
            found = (await execs.script(_SETUP, timeout_sec=_SETUP_SEC)).decode("utf-8", "replace")
        except SandboxError as error:
            raise await self._why_ended(engine, error) from error
        self._shell = "bash" if found.startswith("/") else "sh"
        self._execs = execs

    async def _why_ended(self, engine: Engine, error: SandboxError) -> SandboxError:
        """What a container died of that did not live until its first command. 126, 127: its init found no program."""
        state = (await self._inspect(engine))["State"]
        if not state["Running"] and state["ExitCode"] in (126, 127):
            why = "the image has no shell (`sh`): a sandbox needs one to run commands; add one in the Dockerfile"
        else:
            why = f"the container {self._name} ended at once (exit code {state['ExitCode']}): {error}"
        return SandboxError(why, "start_failed")

    async def _inspect(self, engine: Engine, timeout_sec: float = 30.0) -> dict[str, Any]:
        return await ask(engine.address, "GET", f"/containers/{self._container.id}/json", None, timeout_sec)

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
        who = "" if user is None else str(user)
        order = Order(command, cwd or self.workdir, self._shell, env or {}, who, timeout_sec, stdin, output_limit)
        return await self._running.run(order)

    @property
    def _running(self) -> Execs:
        if self._execs is None:
            raise SandboxError(f"sandbox {self._name} is not running", "lost")
        return self._execs

    def terminal_command(self, user: str | int | None = None) -> list[str]:
        assert self._engine is not None and self._container is not None, "start the sandbox first"
        address = self._engine.address
        plan = {
            "engine": address.url, "version": address.version, "container": self._container.id,
            "user": "" if user is None else str(user), "workdir": self.workdir, "shell": self._shell,
            "state": str(self._state.absolute()),
        }
        return relay_command("terminal", plan)

    async def foreground(self) -> bool | None:
        if self._engine is None or self._execs is None:
            return None
        return await foreground(self._engine.address, self._execs, self._state)

    async def read_file(self, path: str, max_bytes: int = 1_000_000, user: str | int | None = None) -> bytes:
        return await docker_files.read_file(self.exec, path, max_bytes, user)

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, append: bool = False, user: str | int | None = None
    ) -> None:
        await docker_files.write_file(self.exec, path, data, mode, append, user)

    async def upload_dir(self, source: Path, target: str) -> None:
        made = await self.exec(f"mkdir -p -- {shlex.quote(target)}", user=0, cwd="/", timeout_sec=_SETUP_SEC)
        if made.exit_code != 0:
            why = made.stderr.decode("utf-8", "replace").strip()[-300:]
            raise SandboxError(f"{target} cannot be made: {why}", "upload_failed")
        assert self._engine is not None
        await docker_files.upload_dir(self._engine, self._container, source, target)

    async def download_dir(self, source: str, target: Path) -> None:
        if self._engine is None or self._execs is None:
            raise SandboxError(f"sandbox {self._name} is not running", "lost")
        await docker_files.download_dir(self._engine, self._container, source, target)

    async def alive(self) -> bool:
        if self._engine is None or self._execs is None:
            return False
        try:
            return bool((await self._inspect(self._engine, _PROBE_SEC))["State"]["Running"])
        except SandboxError:
            return False

    async def stop(self) -> None:
        self._execs = None
        engine = self._engine
        if engine is None or self._container is None:
            return
        await remove_container(engine, self._container.id)
        self._container = None
        self._state.unlink(missing_ok=True)
        if self._spec.network:
            await engine.call("remove network", "stop_failed", lambda: remove_networks(engine))


def container_name(name: str) -> str:
    """A name that Docker takes; two different names stay different."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
    if cleaned == name and len(name) <= 100:
        return f"mrsi-{name}"
    return f"mrsi-{cleaned[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def container_options(spec: SandboxSpec, name: str, host_cpus: int) -> dict[str, Any]:
    """The keyword arguments of `docker.containers.create`; tests hold the security-relevant ones against the Engine."""
    limits = spec.resources
    options: dict[str, Any] = {
        "name": name, "hostname": spec.hostname, "labels": {**spec.labels, LABEL: "sandbox"},
        "environment": dict(spec.env), "entrypoint": ["sh", "-c", _KEEP], "command": [], "init": True,
        "healthcheck": {"test": ["NONE"]}, "log_config": {"type": "none"}, "detach": True,
        "pids_limit": limits.pids, "cap_drop": ["MKNOD", "NET_RAW"] if spec.network else ["MKNOD"],
        "privileged": False, "network": NETWORK if spec.network else None,
    }
    if not spec.network:
        options |= {"network_mode": "none", "extra_hosts": {spec.hostname: "127.0.0.1"}}
        del options["network"]
    if spec.workdir:
        options["working_dir"] = spec.workdir
    if limits.memory_mb:
        options |= {"mem_limit": f"{limits.memory_mb}m", "memswap_limit": f"{limits.memory_mb}m"}
    if limits.cpus:
        options["nano_cpus"] = int(min(max(limits.cpus, 0.01), host_cpus) * 1_000_000_000)
    return options


def _ensure_network(engine: Engine) -> None:
    """One bridge for all sandboxes with a network: Docker has addresses for about thirty, so not one each."""
    if engine.client.networks.list(names=[f"^{NETWORK}$"]):
        return
    try:
        engine.client.networks.create(
            NETWORK, driver="bridge", check_duplicate=True, labels={LABEL: "network"},
            options={"com.docker.network.bridge.enable_icc": "false"},
        )
    except engine.errors.APIError as error:
        if error.status_code != 409:  # another sandbox was faster
            raise
