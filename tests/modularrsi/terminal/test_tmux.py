"""The terminal of one rollout under hostile output, dying shells and odd requests."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.terminals import PLAIN, idle, needs_tmux, processes_with, seen, terminal, written

from harness.types import Key
from modularrsi.errors import SandboxError
from modularrsi.terminal import tmux
from modularrsi.terminal.tmux import TmuxTerminal, bounded, clamp_wait

pytestmark = needs_tmux


@pytest.mark.parametrize(
    ("wait", "clamped"),
    [(0, 0), (1.5, 1.5), (-5, 0), (1e9, 60), (math.inf, 60), (-math.inf, 0), (math.nan, 0), (10**400, 60), ("3", 0),
     (None, 0)],
)  # fmt: skip
def test_waits_are_clamped(wait: Any, clamped: float) -> None:
    assert clamp_wait(wait) == clamped


def test_long_text_keeps_both_ends() -> None:
    text = bounded("a" * 1000 + "b" * 1000, limit=100)
    assert text.startswith("a" * 50 + "\n") and text.endswith("\n" + "b" * 50) and "1900 characters" in text
    assert bounded("short", limit=100) == "short"


def test_a_flood_breaks_neither_sending_nor_reading(tmp_path: Path) -> None:
    """`yes` for ever: reads stay bounded, Ctrl-C gets through, and the shell answers."""

    async def run() -> None:
        async with terminal(tmp_path, history_lines=5_000) as made:
            await made.read("new")
            await made.send(["yes $(printf %0150d 0)\n"], 0.2)
            for scope in ("new", "scrollback", "screen", "new"):
                shot = await made.read(scope)
                assert len(shot.text) <= 5_100 * 161
            await made.send([Key("C-c"), "echo aft''er\n"], 0)
            await seen(made, "\nafter")

    asyncio.run(run())


def test_history_beyond_its_limit_is_admitted(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path, history_lines=500) as made:
            await made.send(["seq -f 'first %g' 50\n"], 0)
            await seen(made, "first 50")
            await idle(made)
            await made.read("new")
            await made.send(["seq -f 'second %g' 3000\n"], 0)
            await seen(made, "second 3000")
            shot = await made.read("new")
            assert not shot.complete and "second 3000" in shot.text and "first" not in shot.text
            assert "second 3000" not in (await made.read("new")).text

    asyncio.run(run())


def test_a_trimmed_history_still_tells_what_is_new(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path, history_lines=1_000) as made:
            await made.send(["seq -f 'first %g' 900\n"], 0)
            await seen(made, "first 900")
            await idle(made)
            await made.read("new")
            await made.send(["seq -f 'second %g' 300\n"], 0)
            await seen(made, "second 300")
            await idle(made)
            shot = await made.read("new")
            wanted = "\n".join(["$ seq -f 'second %g' 300", *(f"second {n}" for n in range(1, 301)), "$"])
            assert shot.complete and shot.text == wanted

    asyncio.run(run())


def test_hostile_sequences_change_nothing_of_the_server(tmp_path: Path) -> None:
    """Clipboard, passthrough, titles and names: the options that would let output act are off."""
    attack = "\\033]52;c;aGFjaw==\\007\\033ktitle\\033\\\\\\033]2;title\\007"
    attack += "\\033Ptmux;\\033\\033]52;c;aGFjaw==\\007\\033\\\\"

    async def run() -> None:
        async with terminal(tmp_path) as made:
            before = await made._control.run("display-message -p '#W'")
            await made.send([f"printf '{attack}'; echo do''ne\n"], 0)
            await seen(made, "done")
            after = await made._control.run("display-message -p '#W'", "list-buffers")
            assert after == [*before, ""]
            options = ["show -sv set-clipboard", "show -gv prefix", "show -gv status", "show -gwv allow-rename"]
            *said, root_keys = await made._control.run(*options, "list-keys -T root")
            assert said == ["off", "None", "off", "off"] and not root_keys.strip()

    asyncio.run(run())


def test_bracketed_paste_marks_are_not_seen_by_programs_that_did_not_ask(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with terminal(tmp_path) as made:
            await made.send([f"cat > {tmp_path}/out\n"], 0.3)
            await made.send(["one\n\ttwo\nthree\n", Key("C-d")], 0)
            return await written(tmp_path / "out", b"one\n\ttwo\nthree\n")

    assert asyncio.run(run()) == b"one\n\ttwo\nthree\n"


def test_several_commands_in_one_text_all_run(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path) as made:
            await made.send(["echo on''e\necho tw''o\n"], 0)
            await seen(made, "\ntwo")
            assert "\none\n" in (await made.read("new")).text

    asyncio.run(run())


def test_a_progress_line_and_redraws(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path) as made:
            await made.send(["printf 'a\\nb\\nc 1%%'; read x; printf '\\033[2A\\rB 2\\n\\rc 2%%'; read y\n"], 0)
            await seen(made, lambda shot: shot.text.endswith("\nc 1%"))
            await made.read("new")
            await made.send(["\n"], 0)
            await seen(made, lambda shot: shot.text.endswith("\nc 2%"))
            text = (await made.read("new")).text
            assert "c 2%" in text and "B 2" in text and "\na\n" not in text
            assert (await made.read("new")).text == text.split("\n")[-1]

    asyncio.run(run())


def test_a_shell_that_keeps_dying_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmux, "MAX_RECREATIONS", 2)

    async def run() -> None:
        async with terminal(tmp_path) as made:
            with pytest.raises(SandboxError, match="within a minute") as caught:
                for _ in range(200):
                    await made.send(["exit\n"], 0.05)
            assert caught.value.cause == "shell_lost"

    asyncio.run(run())


def test_a_session_that_cannot_be_recreated_is_lost(tmp_path: Path) -> None:
    commands = iter([PLAIN])

    async def run() -> None:
        async with terminal(tmp_path, lambda: next(commands, ["sh", "-c", "echo no more; exit 1"])) as made:
            await made.send(["exit\n"], 0)
            with pytest.raises(SandboxError, match="no more") as caught:
                for _ in range(200):
                    await made.read("new")
                    await asyncio.sleep(0.02)
            assert caught.value.cause == "shell_lost"

    asyncio.run(run())


@pytest.mark.parametrize("command", [["sh", "-c", "echo broken; exit 1"], ["/no/such/program"]])
def test_a_command_that_ends_at_once_is_a_failed_start(tmp_path: Path, command: list[str]) -> None:
    async def run() -> None:
        made = TmuxTerminal(command, folder=tmp_path, name="one")
        with pytest.raises(SandboxError, match="ended at once") as caught:
            await made.start()
        assert caught.value.cause == "start_failed"

    asyncio.run(run())
    assert not (tmp_path / "one").exists() and not processes_with(str(tmp_path / "one" / "s"))


def test_stop_is_idempotent_and_survives_a_hung_server(tmp_path: Path) -> None:
    async def run() -> None:
        made = TmuxTerminal(PLAIN, folder=tmp_path, name="one", timeout=0.3)
        await made.stop()
        await made.start()
        for pid in processes_with(str(tmp_path / "one" / "s")):
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(SandboxError):
            await made.read("screen")
        await made.stop()
        await made.stop()
        with pytest.raises(SandboxError):
            await made.send(["x"], 0)

    asyncio.run(run())
    assert not processes_with(str(tmp_path / "one" / "s")) and list(tmp_path.iterdir()) == []


def test_odd_text_never_raises(tmp_path: Path) -> None:
    odd = ["", "\x00", "\ud800", "\x1b]0;x", "\x1b[200~", "\u202e\u200b", "\x7f" * 50, "\r\r\n", "\ufeff", "a" * 5_000]

    async def run() -> None:
        async with terminal(tmp_path) as made:
            for text in odd:
                assert await made.send([text], 0) is False
            await made.send([Key("C-c")], 0.2)
            await made.send(["echo fi''ne\n"], 0)
            await seen(made, "\nfine")

    asyncio.run(run())


def test_a_key_right_after_a_long_paste_does_not_deafen_the_shell(tmp_path: Path) -> None:
    """Ctrl-C drops unread input, the closing paste mark with it: it must come after that mark, or nothing ends the
    paste. (bash itself may miss a Ctrl-C that comes while it draws; the next one works.)"""

    async def run() -> None:
        async with terminal(tmp_path) as made:
            for size in (2_000, 20_000):
                await made.send(["x" * size, Key("C-c"), "echo al''ive\n"], 0.2)
                for _ in range(50):
                    if "\nalive" in (await made.read("screen")).text:
                        break
                    await made.send([Key("C-c"), "echo al''ive\n"], 0.2)
                await seen(made, "\nalive")
                await made.send(["clear\n"], 0)
                await seen(made, lambda shot: shot.text == "$")

    asyncio.run(run())


def test_reading_the_screen_does_not_consume_what_is_new(tmp_path: Path) -> None:
    async def run() -> None:
        async with terminal(tmp_path) as made:
            await made.read("new")
            await made.send(["echo he''re\n"], 0)
            await seen(made, "here")
            await idle(made)
            await made.read("scrollback")
            assert (await made.read("new")).text == "$ echo he''re\nhere\n$"

    asyncio.run(run())
