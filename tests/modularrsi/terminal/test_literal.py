"""How text is planned for the terminal: typed, pasted, or pasted in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.terminal.literal import PIECE, SHORT, Pasted, Typed, clean, needs_paste, plan


def delivered(text: str, eof: str | None = None) -> bytes:
    """What reaches a reader in canonical mode: newlines for Enter, and no end-of-file characters."""
    out = b""
    for step in plan(text, eof):
        out += step.data if isinstance(step, Typed) else step.text.replace("\n", step.enter).encode()
    return out.replace(b"\r", b"\n").replace((eof or "\0").encode(), b"")


@pytest.mark.parametrize("text", ["ls\n", "Up", "é😀\n", "\n", "\n\n\n", "\t", "x" * SHORT + "\n", "y", " "])
def test_short_lines_are_typed(text: str) -> None:
    assert plan(text) == [Typed(text.replace("\n", "\r").encode())]


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "\ta", "x" * (SHORT + 1), "\n\na", "é" * SHORT])
def test_long_multi_line_and_tabbed_text_is_pasted(text: str) -> None:
    assert plan(text) == [Pasted(text)]
    assert plan(text + "\n") == [Pasted(text), Typed(b"\r")]


def test_only_the_last_newline_is_the_enter_that_runs_it() -> None:
    assert plan("a\nb\n\n") == [Pasted("a\nb\n"), Typed(b"\r")]


@pytest.mark.parametrize("text", ["\x03", "cat > f\nhello\n\x04", "a\x1b[Ab", "\x7f\n"])
def test_control_characters_are_keys(text: str) -> None:
    assert plan(text) == [Typed(text.replace("\n", "\r").encode())]


def test_enter_can_be_a_line_feed() -> None:
    assert plan("ls\n", enter="\n") == [Typed(b"ls\n")]
    assert plan("a\nb\n", enter="\n") == [Pasted("a\nb", "\n"), Typed(b"\n")]


def test_nothing_is_nothing() -> None:
    assert plan("") == []


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("a\r\nb", "a\nb"), ("a\rb", "a\nb"), ("\x00", "\ufffd"), ("\ud800x\udfff", "\ufffdx\ufffd"), ("😀", "😀"),
     ("a\x1b[200~b\x1b[201~", "ab")],
)  # fmt: skip
def test_what_no_terminal_takes_is_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize("unit", ["x", "é", "漢", "😀", "a漢"])
@pytest.mark.parametrize("length", [PIECE, PIECE + 1, 6_000, 20_000])
def test_a_long_line_is_cut_between_characters(unit: str, length: int) -> None:
    line = (unit * length)[:length]
    [step] = plan(line, eof="\x04")
    assert isinstance(step, Pasted)
    pieces = step.text.split("\x04")
    assert "".join(pieces) == line
    assert all(0 < len(piece.encode()) <= PIECE for piece in pieces)
    assert step.bracketed is (len(line.encode()) <= PIECE)


def test_short_lines_around_a_long_one_get_no_end_of_file() -> None:
    [step, enter] = plan("short\n" + "x" * 9_000 + "\n\nend\n", eof="\x04")
    assert isinstance(step, Pasted) and enter == Typed(b"\r")
    lines = step.text.split("\n")
    assert [line.count("\x04") for line in lines] == [0, 2, 0, 0]
    assert not any(line.startswith("\x04") or line.endswith("\x04") for line in lines)


@given(st.text(), st.sampled_from([None, "", "\x04"]))
def test_any_text_is_delivered_and_nothing_raises(text: str, eof: str | None) -> None:
    if "\x04" not in text:
        assert delivered(text, eof) == clean(text).encode()
    assert needs_paste(text) is any(isinstance(step, Pasted) for step in plan(text))


@given(st.characters(categories=["Cs"]))
def test_lone_surrogates_never_raise(char: str) -> None:
    assert delivered(char + "\n") == "\ufffd\n".encode()
