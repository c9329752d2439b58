"""The interactive shell of a sandbox, on a real tty: it shares everything with `exec`."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest
from support.sandboxes import KINDS, Kind, output, require, started

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _available(kind: Kind) -> None:
    require(kind)


class Tty:
    """A shell on a pseudo-terminal, as tmux would start it: leader of a session that the terminal controls."""

    def __init__(self, argv: list[str]) -> None:
        self.master, slave = pty.openpty()
        name = os.ttyname(slave)
        start = f"""
import os, sys
os.setsid()
tty = os.open({name!r}, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(tty, stream)
os.execvp(sys.argv[1], sys.argv[1:])
"""
        self.process = subprocess.Popen(["python3", "-c", start, *argv], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def until(self, text: str, timeout_sec: float = 20.0) -> str:
        """Read until `text` has come; returns what came before it, and forgets both."""
        deadline = time.monotonic() + timeout_sec
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come; the screen has {self.seen!r}"
            await asyncio.sleep(0.01)
            while select.select([self.master], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        before, _, self.seen = self.seen.partition(text)
        return before

    def close(self) -> None:
        os.close(self.master)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def _foreground(sandbox, wanted: bool) -> None:
    for _ in range(200):
        if await sandbox.foreground() is wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"foreground() did not become {wanted}")


def _with_terminal(kind: Kind, tmp_path: Path, scenario) -> None:
    async def run() -> None:
        async with started(kind, tmp_path) as sandbox:
            tty = Tty(sandbox.terminal_command())
            try:
                tty.type("PS1='READY> '\n")
                await tty.until("READY> ")
                await scenario(sandbox, tty)
            finally:
                await asyncio.to_thread(tty.close)

    asyncio.run(run())


def test_files_and_folder_are_those_of_exec(kind: Kind, tmp_path: Path) -> None:
    async def scenario(sandbox, tty: Tty) -> None:
        tty.type("pwd; echo typed > made; echo do''ne\n")
        assert "/app" in await tty.until("done")
        assert await output(sandbox, "cat /app/made") == "typed\n"

    _with_terminal(kind, tmp_path, scenario)


def test_it_is_an_interactive_shell_with_job_control_and_no_history_expansion(kind: Kind, tmp_path: Path) -> None:
    async def scenario(sandbox, tty: Tty) -> None:
        tty.type("echo job=$(set -o | grep -c 'monitor *.*on') bang='a!b!!' e''nd\n")
        await tty.until("job=1 bang=a!b!! end")
        assert "no job control" not in tty.seen

    _with_terminal(kind, tmp_path, scenario)


def test_ctrl_c_interrupts(kind: Kind, tmp_path: Path) -> None:
    async def scenario(sandbox, tty: Tty) -> None:
        tty.type("sleep 300; echo code=$?\n")
        await _foreground(sandbox, True)
        tty.type("\x03")
        await tty.until("READY> ")
        tty.type("echo af''ter\n")
        await tty.until("after")

    _with_terminal(kind, tmp_path, scenario)


def test_foreground_tells_a_program_from_the_prompt(kind: Kind, tmp_path: Path) -> None:
    async def scenario(sandbox, tty: Tty) -> None:
        await _foreground(sandbox, False)
        tty.type("cat\n")
        await _foreground(sandbox, True)
        tty.type("\x04")
        await _foreground(sandbox, False)
        tty.type("sleep 300 &\n")
        await asyncio.sleep(0.3)
        assert await sandbox.foreground() is False

    _with_terminal(kind, tmp_path, scenario)


def test_a_service_started_in_it_is_reached_by_exec_and_outlives_the_shell(kind: Kind, tmp_path: Path) -> None:
    serve = """
import socket
server = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(server.getsockname()[1]))
while True:
    server.accept()[0].close()
"""

    async def scenario(sandbox, tty: Tty) -> None:
        if (await sandbox.exec("python3 -c ''")).exit_code != 0:
            pytest.skip("no python in the sandbox")
        await sandbox.write_file("/app/serve.py", serve.encode())
        tty.type("nohup python3 serve.py >/dev/null 2>&1 &\n")
        ask = "while [ ! -s port ]; do sleep 0.05; done; exec 3<>/dev/tcp/127.0.0.1/$(cat port)"
        await output(sandbox, ask, cwd="/app", timeout_sec=20.0)
        tty.type("exit\n")
        await asyncio.to_thread(tty.process.wait, 20)
        assert await sandbox.foreground() is None
        await output(sandbox, ask, cwd="/app", timeout_sec=20.0)

    _with_terminal(kind, tmp_path, scenario)


def test_the_shell_ends_with_the_sandbox(kind: Kind, tmp_path: Path) -> None:
    async def scenario(sandbox, tty: Tty) -> None:
        tty.type("trap '' HUP TERM; sleep 500\n")
        await _foreground(sandbox, True)
        await sandbox.stop()
        await asyncio.to_thread(tty.process.wait, 20)

    _with_terminal(kind, tmp_path, scenario)
