"""The private server: its folder, what it starts from, and that nothing of it is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.terminals import PLAIN, needs_tmux, processes_with, seen, terminal

from modularrsi.errors import SandboxError
from modularrsi.terminal import server

ROOT = Path(__file__).resolve().parents[3]

ENGINE = """
import asyncio, sys
from pathlib import Path
from modularrsi.terminal.tmux import TmuxTerminal

async def main():
    made = TmuxTerminal(["bash", "--norc", "--noprofile"], folder=Path(sys.argv[1]), name="one")
    await made.start()
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def engine(folder: Path) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    assert started.stdout is not None and started.stdout.readline() == b"started\n"
    return started


def gone(text: str) -> bool:
    deadline = time.monotonic() + 20
    while processes_with(text):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_the_folder_is_private(tmp_path: Path) -> None:
    home = server.make_home(tmp_path, "one")
    assert home.stat().st_mode & 0o777 == 0o700
    server.destroy(home)
    assert not home.exists()


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    home = server.make_home(folder, "one")
    short = home.resolve()
    assert home.is_symlink() and len(os.fsencode(server.socket_of(home))) <= 100
    assert short.stat().st_mode & 0o777 == 0o700
    server.destroy(home)
    assert not home.is_symlink() and not short.exists()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 200])
def test_a_name_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(SandboxError, match="terminal name"):
        server.make_home(tmp_path, name)


def test_destroy_follows_no_link_to_a_folder_that_is_not_its_own(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "one").symlink_to(precious)
    server.destroy(tmp_path / "t" / "one")
    assert (precious / "file").read_text() == "kept" and not (tmp_path / "t" / "one").is_symlink()


def test_reap_of_nothing(tmp_path: Path) -> None:
    assert server.reap(tmp_path / "missing") == [] and server.reap(tmp_path) == []


@needs_tmux
def test_a_terminal_works_below_a_long_path(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path / ("y" * 120)) as made:
            await made.send(["echo lo''ng\n"], 0)
            await seen(made, "long")

    asyncio.run(run())
    assert not processes_with(str(tmp_path))


@needs_tmux
def test_nothing_of_the_engine_reaches_the_pane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys of the engine's environment nor tmux's own variables, nor the user's configuration."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("TMUX", "/tmp/other,1,0")
    (tmp_path / ".tmux.conf").write_text("set -g status on\n")
    monkeypatch.setenv("HOME", str(tmp_path))

    async def run() -> str:
        async with terminal(tmp_path) as made:
            await made.send(["env; echo do''ne\n"], 0)
            return (await seen(made, "done", "scrollback")).text

    text = asyncio.run(run())
    assert "s3cret" not in text and "TMUX" not in text and "TERM_PROGRAM" not in text
    assert f"\nTERM={server.TERM}\n" in text


@needs_tmux
def test_a_killed_engine_leaves_no_server(tmp_path: Path) -> None:
    started = engine(tmp_path)
    socket = str(tmp_path / "one" / "s")
    assert processes_with(socket)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert gone(socket)
    assert server.reap(tmp_path) == ["one"]
    assert not (tmp_path / "one").exists()


@needs_tmux
def test_reap_ends_a_server_that_hangs(tmp_path: Path) -> None:
    started = engine(tmp_path)
    socket = str(tmp_path / "one" / "s")
    for pid in processes_with(socket):
        os.kill(pid, signal.SIGSTOP)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert server.reap(tmp_path) == ["one"]
    assert gone(socket) and not (tmp_path / "one").exists()


@needs_tmux
def test_starting_again_under_the_same_name_replaces_what_was_left(tmp_path: Path) -> None:
    (tmp_path / "t" / "one").mkdir(parents=True)
    (tmp_path / "t" / "one" / "conf").write_text("old")

    async def run() -> None:
        async with terminal(tmp_path) as made:
            assert (await made.read("screen")).text == "$"

    asyncio.run(run())
    assert not (tmp_path / "t" / "one").exists()


@pytest.mark.parametrize(
    ("version", "enough"),
    [("tmux 3.3a", True), ("tmux 3.2", True), ("tmux 3.1c", False), ("tmux 2.9", False), ("tmux next-3.6", True),
     ("tmux master", True), ("tmux openbsd-7.4", True), ("tmux 10.0", True)],
)  # fmt: skip
def test_versions(version: str, enough: bool) -> None:
    assert server.new_enough(version) is enough


@needs_tmux
def test_availability_here() -> None:
    found = server.tmux_availability()
    assert found.usable and found.detail.startswith("tmux ")


def test_availability_without_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = server.tmux_availability()
    assert not found.usable and "install tmux" in found.fix
    with pytest.raises(SandboxError, match="not installed") as caught:
        server.control_argv(server.make_home(tmp_path, "one"), PLAIN, 160, 40, 100)
    assert caught.value.cause == "unsupported"


def test_availability_of_an_old_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "tmux"
    fake.write_text("#!/bin/sh\necho tmux 2.8\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = server.tmux_availability()
    assert not found.usable and "2.8 is too old" in found.detail and found.fix
