"""What a sandbox is: one private machine for one rollout.

Implementations: `docker`, `bubblewrap`, `process` (no isolation, explicit flag only). One conformance suite
(`tests/conformance/test_sandbox.py`) runs against each. All paths are POSIX paths inside the sandbox. A sandbox never
follows a path on the host that the agent could have planted: every file operation runs inside.

Lifecycle: `start` → any number of `exec`/`read_file`/`write_file`/`upload_dir`/`download_dir` → `stop`. `stop` is
idempotent, bounded in time, and leaves nothing: no process, container, mount, cgroup, folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one sandbox; None = the sandbox's own default (which is never "unlimited" for pids)."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int = 2048


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to build and start. `environment_dir` is the task's `environment/` folder (Dockerfile and its context).

    `network`: False = no network at all. `name` is unique per rollout; `labels` go on every resource so that the
    reaper can find what a killed engine left behind. `hostname` is fixed so that prompts repeat across a resume.
    `scratch` is a private folder of the engine for this rollout; the sandbox may keep its files under it.
    """

    name: str
    environment_dir: Path
    scratch: Path
    docker_image: str | None = None
    environment_digest: str = ""
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    network: bool = False
    resources: Resources = Resources()
    build_timeout_sec: float = 600.0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    hostname: str = "sandbox"


@dataclass(frozen=True, slots=True)
class ExecResult:
    """`exit_code` None = killed at its time limit, and every process it had started with it (except detached services
    of a *finished* command, which live on). Output beyond the limit is cut, and `truncated` says so."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False


class Sandbox(Protocol):
    """All coroutines raise `SandboxError` for faults of the sandbox itself, never for a command's own failure."""

    kind: str
    workdir: str
    """The folder commands start in (the task's workdir, else the image's WORKDIR, else `/`)."""

    async def start(self) -> None:
        """Build or fetch the image if needed, start, create /logs/agent, /logs/verifier, /logs/artifacts, /tests."""
        ...

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
        """Run `command` with `bash -c` (`sh -c` where there is no bash). Detached children do not hold it up."""
        ...

    def terminal_command(self, user: str | int | None = None) -> list[str]:
        """The argv that, run on a tty of the host, is an interactive login shell inside the sandbox."""
        ...

    async def foreground(self) -> bool | None:
        """Whether a program other than the terminal's shell runs in the terminal's foreground; None = cannot tell."""
        ...

    async def read_file(self, path: str, max_bytes: int = 1_000_000, user: str | int | None = None) -> bytes: ...

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, append: bool = False, user: str | int | None = None
    ) -> None: ...

    async def upload_dir(self, source: Path, target: str) -> None:
        """Copy the content of a host folder into `target` (made if missing), modes kept, owned by root."""
        ...

    async def download_dir(self, source: str, target: Path) -> None:
        """Copy a folder out: regular files and folders only, nothing outside `target` is ever written."""
        ...

    async def alive(self) -> bool: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Availability:
    """What `doctor` and the preflight say of one kind: usable or not, why not, and the command that mends it."""

    kind: str
    usable: bool
    detail: str
    fix: str = ""
    isolation: str = ""
