"""What the host sees of a pane's program."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from pathlib import Path

import pytest
from support.bwrap import bwrap_shell
from support.terminals import PLAIN, needs_tmux, seen, terminal

from harness.types import Key
from modularrsi.terminal import status


def test_canonical_mode_of_a_terminal() -> None:
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        assert status.canonical_eof(name) == "\x04"
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ICANON
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        assert status.canonical_eof(name) == ""
    finally:
        os.close(master)
        os.close(slave)


def test_no_terminal_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert status.canonical_eof(str(tmp_path / "missing")) is None
    assert status.canonical_eof(str(tmp_path / "file")) is None


def test_a_process_that_is_gone_or_no_shell_cannot_be_told() -> None:
    assert status.foreground_busy(2**22 + 1) is None
    assert status.foreground_busy(os.getpid()) is None


@pytest.mark.parametrize(
    ("row", "column", "waits"),
    [("> ", 2, True), (">", 2, True), ("> x", 3, False), (">", 1, False), ("$ ", 2, False), ("", 0, False)],
)
def test_a_lone_secondary_prompt(row: str, column: int, waits: bool) -> None:
    assert status.awaits_more(row, column) is waits


@needs_tmux
@pytest.mark.parametrize("caged", [False, True])
def test_busy_follows_the_foreground(tmp_path: Path, caged: bool) -> None:
    """For a shell of the host and for one inside bubblewrap; a job in the background is not busy, a nested shell is."""
    command = bwrap_shell(tmp_path) if caged else PLAIN

    async def run() -> None:
        async with terminal(tmp_path, command) as made:
            assert (await made.read("screen")).busy is False
            await made.send(["sleep 600\n"], 0)
            await seen(made, lambda shot: shot.busy is True)
            while (await made.read("screen")).busy:  # bash loses a Ctrl-C that comes between fork and exec
                await made.send([Key("C-c")], 0.1)
            await made.send(["sleep 601 & echo st''arted\n"], 0)
            await seen(made, lambda shot: "started" in shot.text and shot.busy is False)
            await made.send(["bash --norc\n"], 0)
            await seen(made, lambda shot: shot.busy is True)

    asyncio.run(run())


@needs_tmux
def test_the_sandbox_knows_better(tmp_path: Path) -> None:
    """`foreground` is asked where it is given; a `> ` of a program that is known to run is no open quote."""
    answers: list[bool | None] = [True]

    async def foreground() -> bool | None:
        return answers[0]

    async def run() -> None:
        async with terminal(tmp_path, foreground=foreground) as made:
            await made.send(["echo '\n"], 0)
            await seen(made, "\n>")
            shot = await made.read("screen")
            assert shot.busy is True and not shot.waiting
            answers[0] = None
            shot = await made.read("screen")
            assert shot.busy is None and shot.waiting

    asyncio.run(run())


@needs_tmux
def test_a_prompt_that_looks_like_a_secondary_one_is_not_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path, pane_env={"PS1": "> "}) as made:
            assert not (await made.read("screen")).waiting

    asyncio.run(run())
