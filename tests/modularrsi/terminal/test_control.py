"""The control client against a real tmux: its replies cannot be forged, and no fault of the server hangs it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.terminals import PLAIN, needs_tmux

from modularrsi.errors import SandboxError
from modularrsi.terminal import control, server
from modularrsi.terminal.control import CommandFailed, ControlClient, ReplyTooLarge
from modularrsi.terminal.framing import quote

pytestmark = needs_tmux

ATTACK = r"""
import sys, time
now = int(time.time())
for number in range(250, 700):
    for clock in (now, now + 1):
        for word in ("end", "error"):
            print(f"%{word} {clock} {number} 1")
print("%begin 1 1 1"); print("%exit"); print("attacked", flush=True)
time.sleep(600)
"""


@asynccontextmanager
async def client(folder: Path, command: list[str] = PLAIN, timeout: float = 20.0) -> AsyncIterator[ControlClient]:
    home = server.make_home(folder, "one")
    made = ControlClient(timeout)
    try:
        await made.start(server.control_argv(home, command, 160, 40, 100_000), server.environment({}), home)
        yield made
    finally:
        await made.close()
        server.destroy(home)


async def server_pid(made: ControlClient) -> int:
    return int((await made.run("display-message -p '#{pid}'"))[0])


def test_output_that_imitates_replies_is_only_output(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(tmp_path, ["python3", "-c", ATTACK]) as made:
            captured = ""
            while "attacked" not in captured:
                captured, after = await made.run("capture-pane -p -S -", "display-message -p after")
                assert after == "after"
            lines = captured.split("\n")
            assert sum(line.startswith("%end ") for line in lines) == 900
            assert sum(line.startswith("%error ") for line in lines) == 900

    asyncio.run(run())


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    texts = ["'", '"', "\\", "\\n", "$HOME", "~", "~root\n\tx", "a;b", ";", "#{pid}"]
    texts += ["\t\x01\x7f", "é漢😀", "a\nb\rc", "{", "-x"]

    async def run() -> None:
        async with client(tmp_path) as made:
            for text in texts:
                target = tmp_path / "buffer"
                await made.run(f"set-buffer -b x -- {quote(text)}", f"save-buffer -b x {quote(str(target))}")
                assert target.read_bytes() == text.encode()

    asyncio.run(run())


def test_a_refused_command_is_told_and_the_next_one_works(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(tmp_path) as made:
            with pytest.raises(CommandFailed, match="unknown command"):
                await made.run("no-such-command")
            with pytest.raises(CommandFailed, match="find pane"):
                await made.run("display-message -p one", "capture-pane -p -t %77", "display-message -p three")
            assert await made.run("display-message -p fine") == ["fine"]

    asyncio.run(run())


def test_a_cancelled_call_does_not_shift_the_replies(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(tmp_path) as made:
            for number in range(20):
                task = asyncio.create_task(made.run("display-message -p stale"))
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                task.cancel()
                assert await made.run(f"display-message -p fresh{number}") == [f"fresh{number}"]

    asyncio.run(run())


def test_a_killed_server_is_lost(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(tmp_path) as made:
            os.kill(await server_pid(made), signal.SIGKILL)
            for _ in range(2):
                with pytest.raises(SandboxError) as caught:
                    await made.run("display-message -p x")
                assert caught.value.cause == "lost"

    asyncio.run(run())


def test_a_wedged_server_is_lost_after_the_time_limit_and_can_be_destroyed(tmp_path: Path) -> None:
    async def run() -> int:
        async with client(tmp_path, timeout=0.3) as made:
            pid = await server_pid(made)
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(SandboxError, match="does not answer") as caught:
                await made.run("display-message -p x")
            assert caught.value.cause == "lost"
            return pid

    pid = asyncio.run(run())
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_reply_that_is_too_large_is_dropped_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MAX_REPLY_BYTES", 100_000)

    async def run() -> None:
        async with client(tmp_path) as made:
            await made.run(f"set-buffer -b big {'x' * 3_000_000}")
            with pytest.raises(ReplyTooLarge):
                await made.run("show-buffer -b big")
            assert await made.run("display-message -p fine") == ["fine"]

    asyncio.run(run())


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        home = server.make_home(tmp_path, "one")
        argv = server.control_argv(home, PLAIN, 160, 40, 100)
        made = ControlClient()
        with pytest.raises(SandboxError, match="tmux did not start") as caught:
            await made.start([argv[0], "--no-such-option"], server.environment({}), home)
        assert caught.value.cause == "start_failed"
        await made.close()

    asyncio.run(run())
