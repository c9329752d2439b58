"""Where the Docker Engine is, whether it can be used, and the SDK's client for it.

The SDK is imported when the first client is made and nowhere else: it costs 150–200 ms, which `--help` must not pay.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Availability
from modularrsi.sandbox.docker_wire import EngineAddress

MINIMUM_API = (1, 40)
"""Docker 19.03, the first whose archive copies are safe against symbolic links swapped meanwhile (CVE-2018-15664)."""

ISOLATION = "container: own files, processes, network, IPC and host name; memory, CPU and process limits"
_START = "start Docker (`sudo systemctl start docker`, or Docker Desktop), or set DOCKER_HOST to a running Engine"
_PROBE_SEC = 5.0
_CALL_SEC = 60.0
_THREADS = 48

T = TypeVar("T")

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")


def engine_url() -> str:
    """DOCKER_HOST, else the first usual socket that exists, else the standard one.

    Raises `SandboxError` ("unsupported") for hosts reached over ssh or TLS: the terminal's relay speaks neither.
    """
    url = os.environ.get("DOCKER_HOST", "").strip()
    if not url:
        there = [path for path in _usual_sockets() if path.exists()]
        return f"unix://{there[0] if there else '/var/run/docker.sock'}"
    scheme = url.partition("://")[0]
    if os.environ.get("DOCKER_TLS_VERIFY") or scheme not in ("unix", "tcp", "http"):
        why = "over TLS" if os.environ.get("DOCKER_TLS_VERIFY") or scheme == "https" else f"by {scheme}://"
        raise SandboxError(
            f"DOCKER_HOST={url}: an Engine reached {why} is not supported; use unix:// or plain tcp:// "
            "(`ssh -L` can forward a remote socket)",
            "unsupported",
        )
    return "tcp://" + url.removeprefix("http://") if scheme == "http" else url


def _usual_sockets() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    found = [Path("/var/run/docker.sock"), Path.home() / ".docker/run/docker.sock"]
    found += [Path.home() / ".colima/default/docker.sock"]
    return found + ([Path(runtime) / "docker.sock"] if runtime else [])


class Engine:
    """One Engine: its address for execs, and the SDK's client for everything else."""

    def __init__(self, url: str) -> None:
        import docker
        import docker.errors

        self.errors = docker.errors
        try:
            self.client = docker.DockerClient(
                base_url=url, timeout=int(_CALL_SEC), version="auto", max_pool_size=_THREADS
            )
            self.cpus = int(self.client.info()["NCPU"])
        except docker.errors.DockerException as error:
            raise SandboxError(f"the Docker Engine at {url} cannot be reached: {error}", "unsupported") from error
        self.address = EngineAddress(url, str(self.client.api.api_version))

    async def call(
        self, what: str, cause: str, work: Callable[[], T], timeout_sec: float = _CALL_SEC + 5
    ) -> T:
        """Run a blocking SDK call in a thread. Every failure is a `SandboxError` with `cause`, a missing container
        "lost"; the thread itself ends with the SDK's own time-out."""
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(_pool, work), timeout_sec)
        except TimeoutError as error:
            raise SandboxError(f"{what}: no answer from the Docker Engine in {timeout_sec:.0f} s", cause) from error
        except (self.errors.DockerException, OSError) as error:
            raise SandboxError(f"{what}: {explain(error)}", cause) from error


def explain(error: BaseException) -> str:
    """The Engine's own words, without the URL that the SDK puts around them."""
    return str(getattr(error, "explanation", None) or error)


_engine_lock = threading.Lock()


@lru_cache(maxsize=8)
def _engine(url: str) -> Engine:
    return Engine(url)


def engine(url: str | None = None) -> Engine:
    """The shared client of an Engine. Blocks for its first answer; raises `SandboxError` ("unsupported")."""
    with _engine_lock:
        return _engine(url or engine_url())


async def connect() -> Engine:
    """`engine` from a coroutine."""
    return await asyncio.get_running_loop().run_in_executor(_pool, engine)


# -------------------------------------------------------------------------------------------------------- availability


def docker_availability() -> Availability:
    """Whether the `docker` sandbox works here; takes at most a few seconds and needs no SDK."""
    try:
        url = engine_url()
    except SandboxError as error:
        fix = "unset DOCKER_HOST or point it at a unix:// or tcp:// Engine"
        return Availability("docker", False, str(error), fix)
    try:
        version = _probe(url)
    except FileNotFoundError:
        return Availability("docker", False, f"there is no socket at {url}", _START)
    except PermissionError:
        fix = "sudo usermod -aG docker $USER, then log in again"
        return Availability("docker", False, f"no permission to use {url}", fix)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Availability("docker", False, f"no Docker Engine answers at {url}: {error}", _START)
    return _judge(url, version)


def _judge(url: str, version: dict[str, Any]) -> Availability:
    api = str(version.get("ApiVersion", "0"))
    name = f"Docker Engine {version.get('Version', '?')} (API {api}) at {url}"
    if tuple(int(part) for part in api.split(".") if part.isdigit()) < MINIMUM_API:
        need = ".".join(str(part) for part in MINIMUM_API)
        detail = f"{name} is too old: API {need} is needed"
        return Availability("docker", False, detail, "install Docker 19.03 or newer")
    if version.get("Os", "linux") != "linux":
        return Availability("docker", False, f"{name} runs {version['Os']} containers", "switch it to Linux containers")
    return Availability("docker", True, name, isolation=ISOLATION)


def _probe(url: str) -> dict[str, Any]:
    """What `GET /version` says. Raises OSError, ValueError or HTTPException."""
    connection = _Connection(url)
    try:
        connection.request("GET", "/version")
        answer = connection.getresponse()
        body = json.loads(answer.read(1_000_000))
    finally:
        connection.close()
    if answer.status != 200 or not isinstance(body, dict):
        raise ValueError(f"/version answered with status {answer.status}")
    return body


class _Connection(http.client.HTTPConnection):
    """HTTP over the Engine's socket, unix or TCP."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        super().__init__(parts.hostname or "docker", parts.port or 2375, timeout=_PROBE_SEC)
        self._path = EngineAddress(url).socket_path

    def connect(self) -> None:
        if not self._path:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_PROBE_SEC)
        self.sock.connect(self._path)
