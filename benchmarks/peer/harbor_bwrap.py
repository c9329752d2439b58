"""A local Harbor environment on bubblewrap, so that Harbor can run the same tasks on the same machine without Docker.

For the benchmarks only. Harbor 0.26 ships no local environment; this one is the smallest that keeps its contract: one
private root per trial, `/app /logs /tests /solution /tmp /root` writable, the host's `/usr` read-only, no network when
the task asks for none. Dockerfiles are not read: the tasks of the benchmarks need nothing of theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

_WRITABLE = ("app", "logs", "tests", "solution", "tmp", "root", "run", "var")
_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")


class BubblewrapEnvironment(BaseEnvironment):
    """Every `exec` is a bubblewrap of its own over the same folders; processes share the host's process namespace, so
    that a tmux server outlives the exec that started it, and are ended in `stop` by the marker in their environment."""

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="harbor-bwrap-"))

    async def start(self, force_build: bool) -> None:
        for name in _WRITABLE:
            (self._root / name).mkdir(exist_ok=True)
        for target in self._mount_targets(writable_only=True):
            (self._root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        marker = f"HARBOR_BWRAP={self._root}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(self._root, ignore_errors=True)

    def _argv(self, command: str, cwd: str | None, env: dict[str, str] | None) -> list[str]:
        binds = [word for path in _READABLE if Path(path).exists() for word in ("--ro-bind", path, path)]
        for name in _WRITABLE:
            binds += ["--bind", str(self._root / name), f"/{name}"]
        values = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "HARBOR_BWRAP": str(self._root)}
        values |= self._merge_env(env) or {}
        sets = [word for name, value in values.items() for word in ("--setenv", name, value)]
        return ["bwrap", *binds, "--proc", "/proc", "--dev", "/dev", "--unshare-net", "--clearenv", *sets,
                "--chdir", cwd or self.task_env_config.workdir or "/app", "bash", "-c", command]

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = await asyncio.create_subprocess_exec(
                *self._argv(command, cwd, env), stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err
            )
            try:
                code = await asyncio.wait_for(process.wait(), timeout_sec)
            except TimeoutError:
                process.kill()
                code = 124
            out.seek(0)
            err.seek(0)
            return ExecResult(
                stdout=out.read().decode("utf-8", "replace"), stderr=err.read().decode("utf-8", "replace"),
                return_code=code,
            )

    def _host(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    async def upload_file(self, source_path, target_path) -> None:
        self._host(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._host(target_path))

    async def upload_dir(self, source_dir, target_dir) -> None:
        shutil.copytree(source_dir, self._host(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path) -> None:
        shutil.copy(self._host(source_path), target_path)

    async def download_dir(self, source_dir, target_dir) -> None:
        shutil.copytree(self._host(source_dir), target_dir, dirs_exist_ok=True)
