"""A cage for machines without bubblewrap, macOS above all: a container of the user's Docker with a plain Python image.

The files (`harness` and the library) are copied into a volume of the container, owned by root while the worker is
nobody, and not mounted from the host: it works the same with an Engine in a virtual machine, which sees only some
folders, and with one on another machine; and no path of the host shows inside. The Docker SDK is not used: the worker's
streams go through `modularrsi.relay.worker`, which also removes the container, even when it is killed.

The image is never pulled here. Any image with a Python >= 3.11 that is called `python3` will do.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modularrsi.cage.base import READY, CageLimits, CageSpec
from modularrsi.cage.python import Inside, harness_folder, worker_command
from modularrsi.cage.seccomp import worker_filter
from modularrsi.digest import digest_text
from modularrsi.errors import SandboxError
from modularrsi.processes import PROC, Process, identify, is_alive
from modularrsi.relay.engine import Engine, Failed
from modularrsi.relay.start import relay_command
from modularrsi.relay.worker import BROKEN, FOLDER
from modularrsi.sandbox.base import Availability
from modularrsi.sandbox.docker_client import docker_availability, engine_url

IMAGE_VARIABLE = "MODULARRSI_CAGE_IMAGE"
DEFAULT_IMAGE = "python:3.12-slim"
LABELS = {"modularrsi": "worker"}
ENGINE_LABEL = "modularrsi.engine"
"""On every container of a worker: which engine process, on which host, it belongs to."""

_HARNESS, _LIBRARY = f"{FOLDER}/lib/harness", f"{FOLDER}/library"
_NOBODY = "65534:65534"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_PROBE_SEC = 60.0
_MIN_PYTHON = (3, 11)


class DockerCage:
    """One container per worker; nothing in it is writable but a /tmp in memory."""

    kind = "docker"
    broken_status: int | None = BROKEN
    own_limits = True

    @property
    def isolation(self) -> str:
        found = _probe(_url(), _image())
        calls = "seccomp of its own" if _filter(found.machine) else "Docker's seccomp"
        return (
            "docker: container without network or capability, nothing writable but a /tmp in memory; user nobody; own "
            f"process, IPC and mount namespaces; memory, CPU and process limits; {calls}; image {_image()} "
            f"({found.image_id[:19]}), Python {found.python}"
        )

    def argv(self, spec: CageSpec) -> list[str]:
        machine = _probe(_url(), _image()).machine
        return _argv(spec, _url(), _image(), machine)

    def library_path(self, library: Path) -> str:
        return _LIBRARY

    def available(self) -> Availability:
        engine = docker_availability()
        if not engine.usable:
            return Availability(self.kind, False, engine.detail, engine.fix)
        found = _probe(_url(), _image())
        if found.problem:
            return Availability(self.kind, False, found.problem, found.fix)
        return Availability(self.kind, True, f"works with {_image()}", "", self.isolation)

    def sweep(self) -> list[str]:
        """Remove the containers of engines of this host that are dead; nothing where no Engine answers."""
        try:
            return _sweep(Engine(engine_url()))
        except (Failed, SandboxError, OSError, ValueError, KeyError):
            return []


def _image() -> str:
    return os.environ.get(IMAGE_VARIABLE, "").strip() or DEFAULT_IMAGE


def _url() -> str:
    try:
        return engine_url()
    except SandboxError:
        return ""


def _filter(machine: str) -> bytes | None:
    return worker_filter(machine) if machine else None


def _argv(spec: CageSpec, url: str, image: str, machine: str) -> list[str]:
    inside = Inside("python3", _HARNESS, folder="/tmp", seccomp=_filter(machine))
    files = ((harness_folder(), _HARNESS), (spec.library, _LIBRARY))
    plan = {
        "engine": url,
        "name": f"mrsi-worker-{digest_text(spec.name)[:12]}-{uuid.uuid4().hex[:8]}",
        "container": container_body(worker_command(spec, inside), image, spec.name, spec.limits),
        "files": [[str(source), target.removeprefix(f"{FOLDER}/")] for source, target in files],
    }
    return relay_command("worker", plan)


def container_body(command: list[str], image: str, name: str, limits: CageLimits) -> dict[str, Any]:
    """The body of POST /containers/create (Docker Engine API 1.40)."""
    return {
        "Image": image, "Entrypoint": command[:1], "Cmd": command[1:], "User": _NOBODY, "WorkingDir": "/tmp",
        "Env": ["LANG=C.UTF-8", "HOME=/tmp"], "Hostname": "worker", "Healthcheck": {"Test": ["NONE"]},
        "OpenStdin": True, "StdinOnce": True, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
        "Volumes": {FOLDER: {}}, "Labels": {**LABELS, ENGINE_LABEL: this_engine(), "modularrsi.cage": name},
        "HostConfig": {
            "NetworkMode": "none", "IpcMode": "none", "ReadonlyRootfs": True, "Privileged": False,
            "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"], "LogConfig": {"Type": "none"},
            "Tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,size={limits.file_bytes},mode=1777"},
            "Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes, "PidsLimit": limits.pids + 4,
            "NanoCpus": 1_000_000_000,
        },
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ leftovers


def this_engine() -> str:
    """Host, pid and start of this process, as the label's value."""
    me = identify(os.getpid()) or Process(os.getpid(), 0)
    return json.dumps([platform.node(), me.pid, me.start])


def _is_dead(engine: str) -> bool:
    """Whether the label names an engine of this host that has gone."""
    host, pid, start = json.loads(engine)
    if host != platform.node():
        return False
    if PROC.joinpath("self").exists():
        return not is_alive(Process(pid, start))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _sweep(engine: Engine) -> list[str]:
    filters = quote(json.dumps({"label": [f"{name}={value}" for name, value in LABELS.items()]}))
    removed = []
    for container in engine.ask("GET", f"/containers/json?all=1&filters={filters}"):
        if _is_dead(container["Labels"][ENGINE_LABEL]):
            engine.ask("DELETE", f"/containers/{container['Id']}?force=1&v=1")
            removed.append(container["Names"][0].lstrip("/"))
    return removed


# ---------------------------------------------------------------------------------------------------------------- probe


@dataclass(frozen=True, slots=True)
class _Found:
    """`problem`: why the image cannot be used, "" when it can. `machine`: of the image, as `uname -m` says it."""

    problem: str = ""
    fix: str = ""
    machine: str = ""
    image_id: str = ""
    python: str = ""


_TRY = "import platform\nprint(platform.python_version())\n"


@lru_cache(maxsize=8)
def _probe(url: str, image: str) -> _Found:
    """Look for the image and start a worker in it. Pulls nothing."""
    other = f"docker pull {image}, or name another image with a Python >= 3.11 in {IMAGE_VARIABLE}"
    try:
        seen = Engine(url).ask("GET", f"/images/{quote(image, safe='/:@')}/json")
    except Failed as error:
        missing = error.status == 404
        return _Found(f"the image {image} is missing" if missing else str(error), other if missing else "")
    except (OSError, ValueError) as error:
        return _Found(f"no Docker Engine answers: {error}")
    found = _Found(machine=_MACHINES.get(seen["Architecture"], ""), image_id=seen["Id"])
    spec = CageSpec("probe", harness_folder(), program=_TRY)
    try:
        done = subprocess.run(
            _argv(spec, url, image, found.machine), capture_output=True, text=True, timeout=_PROBE_SEC, check=False
        )
    except subprocess.TimeoutExpired:
        return _Found(f"a worker in {image} did not start within {_PROBE_SEC:.0f} s", other)
    version = done.stdout.removeprefix(READY).strip()
    if done.returncode or not done.stdout.startswith(READY):
        why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return _Found(f"no worker starts in {image}: {why}", other)
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _MIN_PYTHON:
        return _Found(f"{image} has Python {version}; 3.11 is needed", other)
    return _Found(machine=found.machine, image_id=found.image_id, python=version)
