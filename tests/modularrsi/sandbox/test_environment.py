"""A task's environment is built once, by whoever comes first, and no rollout can change it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from support.sandboxes import BUBBLEWRAP, output, require, spec, started

from modularrsi.errors import SandboxError
from modularrsi.sandbox import bubblewrap, bwrap_machine
from modularrsi.sandbox.bubblewrap import CACHE
from modularrsi.sandbox.bwrap_root import shows_folder
from modularrsi.sandbox.environment import built, environment_digest

DOCKERFILE = """\
FROM debian
WORKDIR /app
COPY data /app/data
RUN cat /proc/sys/kernel/random/uuid > stamp && echo text > kept && rm -r /srv /app/data/gone && mkdir -p new/deep
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    require(BUBBLEWRAP)
    data = tmp_path / "environment/data"
    data.mkdir(parents=True)
    (data / "gone").write_text("x")
    (data / "stays").write_text("x")
    (tmp_path / "environment/Dockerfile").write_text(DOCKERFILE)
    return tmp_path


def test_many_rollouts_build_once_and_do_not_share(task: Path) -> None:
    async def rollout(number: int) -> str:
        async with started(BUBBLEWRAP, task) as sandbox:
            stamp = await output(sandbox, "cat stamp")
            kept = await output(sandbox, f"cat kept; echo {number} >> kept; rm -r data; cat kept")
            assert kept == f"text\ntext\n{number}\n"
            return stamp

    async def scenario() -> None:
        stamps = await asyncio.gather(*(rollout(number) for number in range(5)))
        assert len(set(stamps)) == 1
        assert await rollout(9) == stamps[0]

    asyncio.run(scenario())
    names = [path.name for path in (task / "scratch" / CACHE).iterdir() if path.is_dir()]
    assert not [name for name in names if name.startswith(".")]


def test_what_the_build_removed_stays_removed(task: Path) -> None:
    async def scenario() -> None:
        async with started(BUBBLEWRAP, task) as sandbox:
            assert await output(sandbox, "ls /app/data; ls -d /srv || true") == "stays\n"

    asyncio.run(scenario())


def test_without_overlays_the_environment_is_copied(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bwrap_machine.open_socket

    def refuse(plan, timeout_sec):
        if plan["lower"]:
            raise SandboxError("bwrap does not start: mount overlay: Invalid argument", "start_failed")
        return real(plan, timeout_sec)

    monkeypatch.setattr(bwrap_machine, "open_socket", refuse)

    async def scenario() -> None:
        async with started(BUBBLEWRAP, task) as one, started(BUBBLEWRAP, task) as other:
            seen = await output(one, "cat stamp; ls data; echo mine > kept")
            assert seen == await output(other, "cat stamp; ls data")
            assert await output(other, "cat kept") == "text\n"

    asyncio.run(scenario())


def test_a_failed_build_is_not_kept(task: Path) -> None:
    (task / "environment/Dockerfile").write_text("FROM debian\nRUN false\n")

    async def scenario() -> None:
        for _ in range(2):
            with pytest.raises(SandboxError, match="line 2"):
                await bubblewrap.BubblewrapSandbox(spec(BUBBLEWRAP, task)).start()

    asyncio.run(scenario())


def test_the_builds_time_limit(task: Path) -> None:
    (task / "environment/Dockerfile").write_text("FROM debian\nRUN sleep 300\n")

    async def scenario() -> None:
        with pytest.raises(SandboxError, match="time limit") as failed:
            await bubblewrap.BubblewrapSandbox(spec(BUBBLEWRAP, task, build_timeout_sec=0.5)).start()
        assert failed.value.cause == "build_failed"

    asyncio.run(scenario())


def test_another_content_is_another_environment(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    first = environment_digest(tmp_path, "", None, "s")
    assert environment_digest(tmp_path, "", None, "s") == first
    assert environment_digest(tmp_path, "", None, "other") != first
    assert environment_digest(tmp_path, "given", None, "s") != first
    (tmp_path / "Dockerfile").chmod(0o600)
    assert environment_digest(tmp_path, "", None, "s") != first
    (tmp_path / "Dockerfile").chmod(0o644)
    (tmp_path / "Dockerfile").write_text("FROM ubuntu\n")
    assert environment_digest(tmp_path, "", None, "s") != first


def test_a_build_that_raises_leaves_nothing_half_done(tmp_path: Path) -> None:
    calls: list[int] = []

    async def build(folder: Path) -> None:
        calls.append(1)
        (folder / "part").write_text("x")
        if len(calls) == 1:
            raise SandboxError("no", "build_failed")

    async def scenario() -> None:
        with pytest.raises(SandboxError):
            await built(tmp_path, "e", build)
        assert [path.name for path in tmp_path.iterdir()] == ["e.lock"]
        results = await asyncio.gather(*(built(tmp_path, "e", build) for _ in range(8)))
        assert {str(path) for path in results} == {str(tmp_path / "e")}

    asyncio.run(scenario())
    assert len(calls) == 2


def test_a_killed_builder_frees_the_lock(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, signal
from pathlib import Path
from modularrsi.sandbox.environment import built
async def build(folder): os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(built(Path({str(tmp_path)!r}), "e", build))
"""
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[3])

    async def build(folder: Path) -> None:
        (folder / "done").write_text("")

    assert (asyncio.run(built(tmp_path, "e", build)) / "done").exists()


def test_shows_folder(tmp_path: Path) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "a/b").mkdir(parents=True)
    (lower / "a/c").mkdir(parents=True)
    (lower / "f").mkdir()
    (upper / "f").write_text("a file over a folder")
    (upper / "link").symlink_to("a")
    layers = [upper, lower]
    assert shows_folder(layers, "/a/b")
    assert shows_folder(layers, "/a/c")
    assert shows_folder(layers, "/")
    assert not shows_folder(layers, "/f")
    assert not shows_folder(layers, "/a/d")
    assert not shows_folder(layers, "/link")
