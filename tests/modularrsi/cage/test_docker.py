"""The container cage against a real Engine: what it asks for, when it is unusable, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cages import LIMITS, Running, containers, own_containers, usable_cage
from support.cut_socket import CutSocket, cut_socket
from support.docker_engine import FULL, SLIM, TINY

from harness.loader import seed_library_path
from modularrsi.cage.base import Cage
from modularrsi.cage.docker import ENGINE_LABEL, IMAGE_VARIABLE, LABELS, DockerCage
from modularrsi.cage.worker import Worker
from modularrsi.errors import SandboxError
from modularrsi.processes import identify
from modularrsi.relay.engine import Engine, Failed
from modularrsi.sandbox.docker_client import engine_url

UP = "import os, time\nos.write(1, b'{\"up\": 1}\\n')\ntime.sleep(600)\n"


@pytest.fixture
def cage(monkeypatch: pytest.MonkeyPatch) -> Cage:
    return usable_cage("docker", monkeypatch)


@pytest.fixture
def engine(cage: Cage) -> Engine:
    return Engine(engine_url())


def test_without_an_engine_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    found = DockerCage().available()
    assert not found.usable and "there is no socket" in found.detail and "start Docker" in found.fix
    assert DockerCage().sweep() == []


@pytest.mark.docker
@pytest.mark.usefixtures("cage")
@pytest.mark.parametrize(
    ("image", "detail", "fix"),
    [
        ("modularrsi-ci:no-such-image", "is missing", "docker pull modularrsi-ci:no-such-image"),
        (SLIM, '"python3": executable file not found', IMAGE_VARIABLE),
        (TINY, "no worker starts in", IMAGE_VARIABLE),
    ],
)
def test_an_image_that_will_not_do(image: str, detail: str, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, image)
    found = DockerCage().available()
    assert not found.usable
    assert image in found.detail and detail in found.detail and fix in found.fix
    assert containers("probe") == []


@pytest.mark.docker
def test_what_it_says_of_itself(cage: Cage) -> None:
    assert FULL in cage.isolation and "sha256:" in cage.isolation and "Python 3.1" in cage.isolation
    assert cage.available().isolation == cage.isolation


@pytest.mark.docker
def test_what_the_engine_was_asked_for(cage: Cage, engine: Engine) -> None:
    name = f"inspected-{uuid.uuid4().hex}"

    async def session() -> dict[str, Any]:
        async with Worker(Running(cage, UP), Path(seed_library_path()), LIMITS, name) as worker:
            await worker.receive(60)
            (container,) = containers(name)
            assert container in own_containers()
            return engine.ask("GET", f"/containers/{container}/json")

    seen = asyncio.run(session())
    host = seen["HostConfig"]
    assert host["NetworkMode"] == "none" and host["IpcMode"] == "none" and not host["Privileged"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == LIMITS.memory_bytes and host["PidsLimit"] == LIMITS.pids + 4
    assert host["Binds"] is None and host["NanoCpus"] == 1_000_000_000
    assert [(mount["Type"], mount["Destination"]) for mount in seen["Mounts"]] == [("volume", "/cage")]
    assert seen["Config"]["User"] == "65534:65534"
    assert json.loads(seen["Config"]["Labels"][ENGINE_LABEL])[1] == os.getpid()
    assert containers(name) == []
    with pytest.raises(Failed) as gone:
        engine.ask("GET", f"/volumes/{seen['Mounts'][0]['Name']}")
    assert gone.value.status == 404


@pytest.mark.docker
def test_an_engine_that_dies_is_not_the_harnesss_fault(
    cage: Cage, engine: Engine, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"cut-{uuid.uuid4().hex}"

    async def session(socket: CutSocket) -> None:
        async with Worker(Running(cage, UP), Path(seed_library_path()), LIMITS, name) as worker:
            await worker.receive(60)
            socket.cut()
            await worker.receive(60)

    target = engine_url()
    with cut_socket(short_folder / "s", target.removeprefix("unix://")) as socket:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{short_folder}/s")
        with pytest.raises(SandboxError, match="cage docker broke") as failed:
            asyncio.run(session(socket))
    assert failed.value.cause == "lost"
    monkeypatch.setenv("DOCKER_HOST", target)
    for container in containers(name):
        engine.ask("DELETE", f"/containers/{container}?force=1&v=1")


@contextlib.contextmanager
def left_by(engine: Engine, owner: list[Any]) -> Iterator[str]:
    """A container as a killed engine, whose guard was killed as well, leaves it."""
    name = f"mrsi-worker-test-{uuid.uuid4().hex[:12]}"
    labels = {**LABELS, ENGINE_LABEL: json.dumps(owner), "modularrsi.cage": name}
    engine.ask("POST", f"/containers/create?name={name}", {"Image": TINY, "Cmd": ["sh"], "Labels": labels})
    try:
        yield name
    finally:
        with contextlib.suppress(Failed):
            engine.ask("DELETE", f"/containers/{name}?force=1")


@pytest.mark.docker
def test_only_what_dead_engines_of_this_host_left_is_swept(cage: Cage, engine: Engine) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    me = identify(os.getpid())
    assert me is not None
    here = platform.node()
    with (
        left_by(engine, [here, dead.pid, 1]) as orphan,
        left_by(engine, [here, me.pid, me.start + 1]) as recycled,
        left_by(engine, [here, me.pid, me.start]) as alive,
        left_by(engine, [here + "-other", dead.pid, 1]) as elsewhere,
    ):
        removed = cage.sweep()
        assert {orphan, recycled} <= set(removed)
        assert containers(orphan) == containers(recycled) == []
        assert len(containers(alive)) == len(containers(elsewhere)) == 1
