"""The relay: a shell of a container on a pseudo-terminal of this host, and the project's tmux terminal on top of it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.docker_engine import FULL, TINY, docker_engine, sandbox  # noqa: F401

from harness.types import Key
from modularrsi.sandbox.docker import DockerSandbox
from modularrsi.sandbox.docker_client import Engine
from modularrsi.terminal.tmux import TmuxTerminal

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker_engine")]
PATIENCE = 120.0


class Tty:
    """A program on a pseudo-terminal."""

    def __init__(self, argv: list[str], rows: int = 40, columns: int = 160) -> None:
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "screen-256color"
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
            os.execv(argv[0], argv)
        self.seen = b""
        self.code: int | None = None

    def type(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self.handle, data) :]

    def until(self, wanted: str) -> str:
        """Everything up to the first match of a pattern; what follows it is kept for the next call."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(wanted.encode(), self.seen)):
            assert time.monotonic() < end, self.seen
            if select.select([self.handle], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.handle, 65536)
                except OSError:  # the other side is closed
                    assert re.search(wanted.encode(), self.seen), self.seen
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text.decode("utf-8", "replace")

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def wait(self) -> int:
        end = time.monotonic() + PATIENCE
        while self.code is None:
            assert time.monotonic() < end, self.seen
            if select.select([self.handle], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.handle, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def close(self) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.handle)


@contextlib.asynccontextmanager
async def shell(tmp: Path, image: str = FULL, **options: object) -> AsyncIterator[tuple[DockerSandbox, Tty]]:
    async with sandbox(tmp, image, **options) as box:
        screen = Tty(box.terminal_command())
        try:
            screen.until(r"[#$] ")
            yield box, screen
        finally:
            screen.close()


async def eventually(look: Callable[[], object], wanted: object) -> None:
    """Wait until an async question gets its answer."""
    end = time.monotonic() + PATIENCE
    while (got := await look()) != wanted:  # type: ignore[misc]
        assert time.monotonic() < end, got
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("image", [TINY, FULL])
def test_login_shell_with_environment_size_and_folder(tmp_path: Path, image: str) -> None:
    async def go() -> None:
        async with shell(tmp_path, image, workdir="/app", env={"GIVEN": "x"}) as (_, screen):
            screen.type("echo \"<$TERM $GIVEN $PWD $(stty size)>\"\r")
            screen.until("<screen-256color x /app 40 160>")
            screen.resize(50, 100)
            screen.type("stty size; echo 'e'nd\r")
            screen.until("50 100\r\nend")

    asyncio.run(go())


def test_bash_is_a_login_shell_without_history_expansion(tmp_path: Path) -> None:
    async def go() -> None:
        async with shell(tmp_path) as (_, screen):
            screen.type("shopt -q login_shell && echo lo''gin; echo \"wow!bang\" $-\r")
            answer = screen.until(r"wow!bang [a-zA-Z]+\r")
            assert "login" in answer
            assert "H" not in answer.rsplit("wow!bang", 1)[1]

    asyncio.run(go())


def test_control_characters_reach_the_shell(tmp_path: Path) -> None:
    async def go() -> None:
        async with shell(tmp_path) as (_, screen):
            screen.type("sleep 1000\r")
            await asyncio.sleep(0.5)
            screen.type("\x03")
            screen.until(r"\^C")
            screen.type("echo a''live; cat\r")
            screen.until("alive")
            screen.type("ä€😀\r\x04")
            screen.until("ä€😀\r\n.*ä€😀")

    asyncio.run(go())


def test_much_output_is_complete(tmp_path: Path) -> None:
    async def go() -> None:
        async with shell(tmp_path) as (_, screen):
            screen.type("seq 1 100000; echo e''nd\r")
            text = screen.until(r"end\r\n")
            assert re.findall(r"(\d+)\r\n", text)[-100_000:] == [str(number) for number in range(1, 100_001)]

    asyncio.run(go())


def test_much_input_to_a_program_that_echoes_it_is_complete(tmp_path: Path) -> None:
    """Input and output are both far larger than any buffer on the way: neither may wait for the other."""
    lines = [f"line {number} {'x' * 80}" for number in range(10_000)]

    async def go() -> None:
        async with shell(tmp_path) as (box, screen):
            screen.type("tee /tmp/typed\r")
            await eventually(box.foreground, True)
            # Echo and output mix on a terminal, within lines too: only what the shell says afterwards is whole.
            text = "".join(line + "\r" for line in lines) + "\x04echo fin''ished\r"
            typing = asyncio.create_task(asyncio.to_thread(screen.type, text))
            await asyncio.to_thread(screen.until, "finished\r\n")
            await typing
            assert (await box.read_file("/tmp/typed", 2_000_000)).decode().splitlines() == lines

    asyncio.run(go())


@pytest.mark.parametrize("image", [TINY, FULL])
def test_exit_code_of_the_shell(tmp_path: Path, image: str) -> None:
    async def go() -> None:
        async with shell(tmp_path, image) as (box, screen):
            screen.type("exit 7\r")
            assert screen.wait() == 7
            assert await box.foreground() is None

    asyncio.run(go())


def test_terminal_of_a_user(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, FULL) as box:
            screen = Tty(box.terminal_command(user=1000))
            try:
                screen.until(r"\$ ")
                screen.type("id -u; echo e''nd\r")
                screen.until("1000\r\nend")
            finally:
                screen.close()

    asyncio.run(go())


@pytest.mark.parametrize("image", [TINY, FULL])
@pytest.mark.parametrize("remote", [False, True])
def test_foreground(tmp_path: Path, image: str, remote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`remote`: as if the Engine ran on another machine, so that only the container itself can be asked."""
    if remote:
        monkeypatch.setattr("modularrsi.sandbox.docker_terminal._on_host", lambda host_pid, pid: None)

    async def go() -> None:
        async with shell(tmp_path, image) as (box, screen):
            await eventually(box.foreground, False)
            screen.type("sleep 1000\r")
            await eventually(box.foreground, True)
            screen.type("\x03")
            await eventually(box.foreground, False)
            screen.type("sleep 1000 &\r")
            screen.until(r"# ")
            assert await box.foreground() is False

    asyncio.run(go())


@pytest.mark.parametrize("image", [TINY, FULL])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_relay_that_ends_hangs_the_shell_up(tmp_path: Path, image: str, number: signal.Signals) -> None:
    async def go() -> None:
        async with shell(tmp_path, image) as (box, screen):
            screen.type("trap '' HUP; sh -c 'trap \"date > /tmp/hung-up\" HUP; while :; do sleep 0.1; done'; cat\r")
            await eventually(box.foreground, True)
            os.kill(screen.pid, number)
            screen.wait()
            ttys = "for d in /proc/[0-9]*; do read -r line < $d/stat && set -- ${line##*) } && echo $5; done"

            async def with_a_terminal() -> bytes:
                return (await box.exec(f"{ttys} | grep -vc '^0$'")).stdout

            await eventually(with_a_terminal, b"0\n")

    asyncio.run(go())


def test_background_jobs_with_nohup_survive_the_terminal(tmp_path: Path) -> None:
    async def go() -> None:
        async with shell(tmp_path) as (box, screen):
            screen.type("nohup sleep 4567 > /dev/null 2>&1 &\r")
            screen.until(r"# ")
            os.kill(screen.pid, signal.SIGKILL)
            screen.wait()
            await asyncio.sleep(2.5)
            assert b"4567" in (await box.exec("ps -eo comm,args | grep '^sleep'")).stdout

    asyncio.run(go())


def test_relay_of_a_removed_container_ends_and_says_why(tmp_path: Path) -> None:
    async def go() -> tuple[list[str], int]:
        async with shell(tmp_path, TINY) as (box, screen):
            argv = box.terminal_command()
            await box.stop()
            return argv, screen.wait()

    argv, code = asyncio.run(go())
    assert code != 0
    screen = Tty(argv)
    screen.until("No such container")
    assert screen.wait() == 125
    screen.close()


def test_relay_restores_its_terminal(tmp_path: Path) -> None:
    """In a shell of the host, the prompt that comes back is a usable one."""

    async def go() -> None:
        async with sandbox(tmp_path, TINY) as box:
            screen = Tty(["/bin/sh"])
            try:
                screen.type(f"stty -a > {tmp_path / 'before'}; ")
                words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in box.terminal_command())
                screen.type(words + f"; stty -a > {tmp_path / 'after'}; echo fi''nished\r")
                screen.until(r"/ # ")
                screen.type("exit\r")
                screen.until("finished")
            finally:
                screen.close()

    asyncio.run(go())
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text() != ""


def test_relay_over_tcp(tmp_path: Path, docker_engine: Engine) -> None:  # noqa: F811
    """The same Engine behind a TCP port, as a forwarded one would be."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near = await asyncio.open_unix_connection(docker_engine.address.socket_path)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
                target.write_eof()

        await asyncio.gather(copy(reader, near[1]), copy(near[0], writer))
        near[1].close()
        writer.close()

    async def go() -> None:
        server = await asyncio.start_server(forward, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, sandbox(tmp_path, TINY) as box:
            argv = box.terminal_command()
            argv[-1] = json.dumps(json.loads(argv[-1]) | {"engine": f"tcp://127.0.0.1:{port}"})
            screen = await asyncio.to_thread(Tty, argv)
            try:
                await asyncio.to_thread(screen.until, r"# ")
                screen.type("echo over t''cp\r")
                await asyncio.to_thread(screen.until, "over tcp")
            finally:
                screen.close()

    asyncio.run(go())


def test_tmux_terminal_on_a_container(tmp_path: Path) -> None:
    async def go() -> None:
        async with sandbox(tmp_path, FULL, workdir="/app") as box:
            terminal = TmuxTerminal(box.terminal_command, folder=tmp_path / "t", name="one", foreground=box.foreground)
            await terminal.start()
            try:
                await terminal.send(["echo $((6 * 7)) > answer; cat answer", Key("Enter")], 1.0)
                end = time.monotonic() + PATIENCE
                while "\n42" not in (snapshot := await terminal.read("screen")).text:
                    assert time.monotonic() < end, snapshot
                    await asyncio.sleep(0.1)
                assert snapshot.busy is False
                assert await box.read_file("/app/answer") == b"42\n"
            finally:
                await terminal.stop()

    asyncio.run(go())
