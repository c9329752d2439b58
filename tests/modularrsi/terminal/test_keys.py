"""Key names: what tmux knows passes, everything else is the user's mistake."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.terminals import needs_tmux, seen, terminal

from harness.types import Key
from modularrsi.errors import UserError
from modularrsi.terminal.keys import key_name


@pytest.mark.parametrize(
    ("name", "known"),
    [("C-c", "C-c"), ("^C", "C-c"), ("enter", "Enter"), ("PPage", "PageUp"), ("F12", "F12"), ("M-x", "M-x"), ("q", "q"),
     (";", ";"), ("KP5", "KP5"), ("C-\\", "C-\\"), ("S-Up", "S-Up")],
)  # fmt: skip
def test_names_of_tmux(name: str, known: str) -> None:
    assert key_name(name) == known


@pytest.mark.parametrize("name", ["", " ", "Entr", "F99", "C-", "kill-server", "C-c ; kill-server", "\n", "é", "C-é"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="no key"):
        key_name(name)


@given(st.text())
def test_no_name_can_be_a_tmux_command(name: str) -> None:
    try:
        known = key_name(name)
    except UserError:
        return
    assert len(known) <= 16 and not set(known) & set(" \n\r\t")


@needs_tmux
def test_an_unknown_key_sends_nothing(tmp_path: Path) -> None:
    """All keys are checked before the first one is pressed."""

    async def run() -> None:
        async with terminal(tmp_path) as made:
            with pytest.raises(UserError):
                await made.send(["echo no", Key("Nope")], 0)
            assert (await made.read("screen")).text == "$"

    asyncio.run(run())


@needs_tmux
def test_every_kind_of_key_is_accepted_by_tmux(tmp_path: Path) -> None:
    names = ["Up", "Home", "C-a", "M-b", "F5", "PageUp", "KP5", ";", "'", '"', "$", "#", "~", "\\", "{"]

    async def run() -> None:
        async with terminal(tmp_path, ["bash", "-c", "echo ready; printf '>'; cat -v"]) as made:
            await made.send([Key(name) for name in names], 0)
            await seen(made, "5;'\"$#~\\{")

    asyncio.run(run())
