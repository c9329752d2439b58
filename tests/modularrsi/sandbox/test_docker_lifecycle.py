"""Containers of every kind of image, from build to removal, on a real Engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from pathlib import Path

import pytest
from support.docker_engine import FULL, LABELS, SLIM, TINY, docker_engine, dockerfile, sandbox, spec  # noqa: F401

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Resources
from modularrsi.sandbox.docker import NETWORK, DockerSandbox, container_options
from modularrsi.sandbox.docker_client import Engine
from modularrsi.sandbox.docker_image import image_tag
from modularrsi.sandbox.docker_reaper import reap

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker_engine")]


def names(engine: Engine) -> list[str]:
    return [found.name for found in engine.client.containers.list(all=True, filters={"label": _label(LABELS)})]


def _label(labels: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in labels.items()]


# ----------------------------------------------------------------------------------------------------------- the images


def test_dockerfile_is_built_once_for_many(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    word = uuid.uuid4().hex
    dockerfile(tmp_path, f"FROM {TINY}", f"RUN echo {word} > /word", "COPY data /copied/", "WORKDIR /work", "ENV A=b")
    (tmp_path / "environment" / "data").mkdir()
    (tmp_path / "environment" / "data" / "kept").write_text("kept")
    (tmp_path / "environment" / "data" / "left-out").write_text("no")
    (tmp_path / "environment" / ".dockerignore").write_text("data/left-out\n")

    async def one(number: int) -> bytes:
        async with sandbox(tmp_path, None) as box:
            assert box.workdir == "/work"
            return (await box.exec("cat /word; ls /copied; pwd; echo $A")).stdout

    async def many() -> list[bytes]:
        return await asyncio.gather(*(one(number) for number in range(3)))

    tag = image_tag(spec(tmp_path, None))
    try:
        assert asyncio.run(many()) == [f"{word}\nkept\n/work\nb\n".encode()] * 3
        history = docker_engine.client.images.get(tag).history()
        assert sum(word in str(layer) for layer in history) == 1
        dangling = docker_engine.client.images.list(filters={"label": f"modularrsi.image={tag}"})
        assert len(dangling) == 1
    finally:
        docker_engine.client.images.remove(tag, force=True)


def test_failed_build_shows_the_end_of_its_output(tmp_path: Path) -> None:
    dockerfile(tmp_path, f"FROM {TINY}", "RUN echo telling words; exit 3")
    with pytest.raises(SandboxError, match="telling words") as caught:
        asyncio.run(DockerSandbox(spec(tmp_path, None)).start())
    assert caught.value.cause == "build_failed"
    assert str(tmp_path / "environment" / "Dockerfile") in str(caught.value)


def test_build_has_a_time_limit(tmp_path: Path) -> None:
    dockerfile(tmp_path, f"FROM {TINY}", f"RUN echo {uuid.uuid4()}; sleep 600")
    with pytest.raises(SandboxError) as caught:
        asyncio.run(DockerSandbox(spec(tmp_path, None, build_timeout_sec=3)).start())
    assert caught.value.cause == "build_failed"


def test_unreadable_dockerfile_and_missing_one(tmp_path: Path) -> None:
    dockerfile(tmp_path, f"FROM {TINY}", "FROB x")
    with pytest.raises(SandboxError, match="FROB") as caught:
        asyncio.run(DockerSandbox(spec(tmp_path, None)).start())
    assert caught.value.cause == "build_failed"
    (tmp_path / "environment" / "Dockerfile").unlink()
    with pytest.raises(SandboxError, match="Dockerfile") as caught:
        asyncio.run(DockerSandbox(spec(tmp_path, None)).start())
    assert caught.value.cause == "unsupported"


def test_image_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="localhost:1/nothing") as caught:
        asyncio.run(DockerSandbox(spec(tmp_path, "localhost:1/nothing:here")).start())
    assert caught.value.cause == "build_failed"


def test_image_without_a_shell_says_so(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    dockerfile(tmp_path, "FROM scratch", "COPY Dockerfile /file")
    made = DockerSandbox(spec(tmp_path, None))
    with pytest.raises(SandboxError, match="no shell") as caught:
        asyncio.run(made.start())
    assert caught.value.cause == "start_failed"
    assert not names(docker_engine)
    docker_engine.client.images.remove(image_tag(spec(tmp_path, None)), force=True)


def test_image_with_user_entrypoint_and_health_check(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    dockerfile(
        tmp_path, f"FROM {FULL}", "RUN useradd -m agent && echo 'agent ALL=(ALL) NOPASSWD: ALL' >> /etc/sudoers",
        "WORKDIR /home/agent/work", "RUN chown agent .", "USER agent",
        'ENTRYPOINT ["false"]', "HEALTHCHECK CMD false",
    )  # fmt: skip

    async def go() -> None:
        async with sandbox(tmp_path, None) as box:
            assert (await box.exec("id -un; pwd; echo ~")).stdout == b"agent\n/home/agent/work\n/home/agent\n"
            assert (await box.exec("sudo id -u")).stdout == b"0\n"
            assert (await box.exec("touch /logs/agent/a /logs/verifier/v /logs/artifacts/x")).exit_code == 0
            assert (await box.exec("touch /tests/t")).exit_code != 0
            await box.write_file("/home/agent/f", b"x")
            assert (await box.exec("stat -c %U /home/agent/f")).stdout == b"agent\n"

    asyncio.run(go())
    docker_engine.client.images.remove(image_tag(spec(tmp_path, None)), force=True)


def test_debian_slim_works_as_it_is(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, SLIM, workdir="/app") as box:
            assert (await box.exec("echo $BASH; pwd")).stdout == b"/usr/bin/bash\n/app\n"

    asyncio.run(go())


# ------------------------------------------------------------------------------------------------ rights and limits


def test_no_network_but_a_loopback(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, FULL) as box:
            assert (await box.exec("ls /sys/class/net")).stdout == b"lo\n"
            await box.exec("python3 -m http.server 80 > /dev/null 2>&1 &", user=0)
            fetch = "curl -s -o /dev/null http://sandbox:80/"
            wait = f"for i in $(seq 50); do {fetch} && echo ok && break; sleep 0.1; done"
            assert (await box.exec(wait)).stdout == b"ok\n"

    asyncio.run(go())


def test_sandboxes_with_network_do_not_reach_each_other(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    async def go() -> None:
        async with sandbox(tmp_path, FULL, network=True) as one, sandbox(tmp_path, FULL, network=True) as two:
            assert b"eth0" in (await one.exec("ls /sys/class/net")).stdout
            address = (await one.exec("hostname -i")).stdout.decode().strip()
            await one.exec("python3 -m http.server 8000 > /dev/null 2>&1 &")
            fetch = f"curl -s -o /dev/null --max-time 3 http://{address}:8000/"
            wait = f"for i in $(seq 50); do {fetch} && echo ok && break; sleep 0.1; done"
            assert (await one.exec(wait)).stdout == b"ok\n"
            assert (await two.exec(fetch)).exit_code != 0

    asyncio.run(go())
    assert not docker_engine.client.networks.list(names=[f"^{NETWORK}$"])


def test_ordinary_rights_are_there_and_dangerous_ones_are_not(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, FULL) as box:
            for allowed in (
                "useradd -m someone && su someone -c 'id -un' | grep someone",
                "touch /f && chown someone /f && chmod 4755 /f",
                "mkfifo /p", "chroot / true", "setpriv --reuid 1000 --clear-groups true",
            ):  # fmt: skip
                result = await box.exec(allowed)
                assert result.exit_code == 0, (allowed, result)
            for refused in ("mknod /dev/x b 8 0", "mount -t tmpfs x /mnt", "unshare -m true", "ls /var/run/docker.sock",
                            "echo 1 > /proc/sys/kernel/sysrq", "echo x > /sys/kernel/mm/ksm/run"):  # fmt: skip
                assert (await box.exec(refused)).exit_code != 0, refused

    asyncio.run(go())


def test_nothing_of_the_host_is_mounted(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    async def go() -> dict[str, object]:
        async with sandbox(tmp_path, TINY):
            (name,) = names(docker_engine)
            return docker_engine.client.containers.get(name).attrs

    attrs = asyncio.run(go())
    host = attrs["HostConfig"]
    assert isinstance(host, dict)
    assert attrs["Mounts"] == []
    assert not host["Binds"] and not host["Privileged"] and host["PidMode"] == "" and host["NetworkMode"] == "none"


def test_limits_hold(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, FULL, resources=Resources(cpus=64, memory_mb=64, pids=30)) as box:
            eaten = await box.exec("python3 -c 'x = bytearray(300_000_000)'", timeout_sec=60)
            assert eaten.exit_code not in (0, None)
            forked = await box.exec("for i in $(seq 60); do sleep 5 & done; wait", timeout_sec=60)
            assert b"fork" in forked.stderr
            assert await box.alive()

    asyncio.run(go())


def test_cpu_limit_is_passed_on(tmp_path: Path) -> None:
    made = container_options(spec(tmp_path, TINY, resources=Resources(cpus=1.5)), "name", 8)
    assert made["nano_cpus"] == 1_500_000_000
    made = container_options(spec(tmp_path, TINY, resources=Resources(cpus=99)), "name", 8)
    assert made["nano_cpus"] == 8_000_000_000


# ------------------------------------------------------------------------------------------------------- the end of it


def test_stop_twice_and_use_after_stop(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    async def go() -> None:
        async with sandbox(tmp_path, TINY) as box:
            assert await box.alive()
            await box.stop()
            assert not await box.alive()
            with pytest.raises(SandboxError) as caught:
                await box.exec("true")
            assert caught.value.cause == "lost"
        await DockerSandbox(spec(tmp_path, TINY)).stop()

    asyncio.run(go())
    assert not names(docker_engine)


def test_container_removed_by_somebody_else_is_lost(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    async def go() -> None:
        async with sandbox(tmp_path, TINY) as box:
            (name,) = names(docker_engine)
            running = asyncio.create_task(box.exec("sleep 60", timeout_sec=50))
            await asyncio.sleep(0.5)
            docker_engine.client.containers.get(name).remove(force=True)
            try:
                assert (await running).exit_code == 137
            except SandboxError as error:
                assert error.cause == "lost"
            assert not await box.alive()
            with pytest.raises(SandboxError) as caught:
                await box.exec("true")
            assert caught.value.cause == "lost"
            with pytest.raises(SandboxError):
                await box.download_dir("/logs", tmp_path / "got")

    asyncio.run(go())


def test_a_volume_of_the_image_goes_with_the_container(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    dockerfile(tmp_path, f"FROM {TINY}", "VOLUME /data")

    def volumes() -> set[str]:
        return {volume.id for volume in docker_engine.client.volumes.list()}

    async def go() -> None:
        before = volumes()
        async with sandbox(tmp_path, None):
            during = volumes() - before
        assert during
        assert not during & volumes()

    asyncio.run(go())
    docker_engine.client.images.remove(image_tag(spec(tmp_path, None)), force=True)


def test_cancelled_start_leaves_nothing(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    async def go() -> None:
        for delay in (0.05, 0.15, 0.3):
            starting = asyncio.create_task(DockerSandbox(spec(tmp_path, TINY)).start())
            await asyncio.sleep(delay)
            starting.cancel()
            await asyncio.wait({starting})

    asyncio.run(go())
    assert not names(docker_engine)


_KILLED = """
    import asyncio, json, sys
    from pathlib import Path
    from modularrsi.sandbox.base import SandboxSpec
    from modularrsi.sandbox.docker import DockerSandbox
    async def main():
        name, labels, image, folder = json.loads(sys.argv[1])
        box = DockerSandbox(SandboxSpec(name=name, environment_dir=Path(folder), scratch=Path(folder),
                                        docker_image=image, labels=labels, network=True))
        await box.start()
        print("up", flush=True)
        await box.exec("sleep 1000")
    asyncio.run(main())
"""


def _killed_engine(tmp_path: Path, name: str, labels: dict[str, str]) -> None:
    """A process that starts a sandbox, runs something in it and is killed without a chance to clean up."""
    argv = [sys.executable, "-c", textwrap.dedent(_KILLED), json.dumps([name, labels, TINY, str(tmp_path)])]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    watchdog.cancel()
    process.stdout.close()


def test_reaper_removes_what_a_killed_engine_left_and_nothing_else(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    ours = {**LABELS, "modularrsi.run": uuid.uuid4().hex}
    name = f"killed-{uuid.uuid4().hex[:8]}"
    _killed_engine(tmp_path, name, ours)

    async def go() -> None:
        async with sandbox(tmp_path, TINY) as other:
            assert await reap(ours) == [f"mrsi-{name}"]
            assert await reap(ours) == []
            assert await other.alive()

    asyncio.run(go())
    assert not docker_engine.client.networks.list(names=[f"^{NETWORK}$"])


def test_start_replaces_what_a_killed_engine_left_under_its_name(tmp_path: Path) -> None:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    _killed_engine(tmp_path, name, LABELS)

    async def go() -> None:
        async with sandbox(tmp_path, TINY, name=name) as box:
            assert (await box.exec("echo new")).stdout == b"new\n"

    asyncio.run(go())
    asyncio.run(reap(LABELS))


def test_somebody_elses_container_of_that_name_is_left_alone(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    name = f"taken-{uuid.uuid4().hex[:8]}"
    other = docker_engine.client.containers.create(TINY, ["true"], name=f"mrsi-{name}")
    try:
        with pytest.raises(SandboxError, match="not ours") as caught:
            asyncio.run(DockerSandbox(spec(tmp_path, TINY, name=name)).start())
        assert caught.value.cause == "start_failed"
        other.reload()
    finally:
        other.remove(force=True)
