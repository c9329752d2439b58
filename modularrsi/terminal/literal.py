"""How literal text reaches the program that reads the terminal.

A short line is typed. What has several lines, tabs or more than `SHORT` bytes is pasted, between bracketed-paste marks
when the program has asked for them: bash then takes the whole text as one edit, tabs and all, and runs it at the Enter
that follows. Text with control characters (a model's way to say Ctrl-C or Ctrl-D) is typed: there they mean keys.

A terminal in canonical mode (`cat > file`, `read`) loses what goes beyond 4,095 bytes of a line (`N_TTY_BUF_SIZE` of
Linux). Longer lines are given in pieces with the end-of-file character between them, which hands what was typed so far
to the reader and, away from the start of a line, ends nothing.

Enter is CR, as on a keyboard. Right after something else was entered it is LF instead: a shell that is about to start
a program switches the terminal from one mode to the other, and a CR that falls in between reaches the program as CR.
LF means the same in both modes; only full-screen programs tell the two apart, and they always get CR.

What cannot be done:
* A program with a line editor that knows no bracketed paste (busybox ash, an old Python) treats a tab as completion.
* Text sent while another command runs is read ahead by the terminal, without marks; tabs in it complete later.
* A paste is one edit of the shell: in "python3\\nprint(1)\\n" the second line is the shell's, not Python's. Send it
  once Python's prompt is there.
* Behind a second terminal (a container's client) canonical mode cannot be seen, so long lines are not cut into pieces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORT = 1_000
PIECE = 4_000
_SURROGATES_AND_NUL = re.compile("[\ud800-\udfff\x00]")
_PASTE_MARKS = re.compile(r"\x1b\[20[01]~")
_KEYS = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Typed:
    """Bytes that go to the pane as keystrokes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pasted:
    """Text that goes through a paste buffer; tmux turns its newlines into `enter`, and adds the marks if asked to."""

    text: str
    enter: str = "\r"
    bracketed: bool = True


def clean(text: str) -> str:
    """Without what no terminal can take: lone surrogates and NUL become U+FFFD, CRLF and CR one newline.

    Bracketed-paste marks are taken out: an opening one would leave the shell deaf to everything, Ctrl-C included.
    """
    text = _PASTE_MARKS.sub("", text)
    text = _SURROGATES_AND_NUL.sub("\ufffd", text)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def plan(text: str, eof: str | None = None, enter: str = "\r") -> list[Typed | Pasted]:
    """The steps that deliver `text`. `eof`: the end-of-file character of a terminal known to be in canonical mode;
    `enter`: what a newline is typed as."""
    text = clean(text)
    body = text.removesuffix("\n")
    if not text:
        return []
    if _KEYS.search(text) or text == "\t" or not body.strip("\n") or _is_short(body):
        return [Typed(text.replace("\n", enter).encode())]
    paste = _paste(body, eof, enter)
    return [paste, Typed(enter.encode())] if body != text else [paste]


def needs_paste(text: str) -> bool:
    return any(isinstance(step, Pasted) for step in plan(text))


def _is_short(body: str) -> bool:
    return "\n" not in body and "\t" not in body and len(body.encode()) <= SHORT


def _paste(body: str, eof: str | None, enter: str) -> Pasted:
    lines = body.split("\n")
    if not eof or all(len(line.encode()) <= PIECE for line in lines):
        return Pasted(body, enter)
    return Pasted("\n".join(eof.join(_pieces(line)) for line in lines), enter, bracketed=False)


def _pieces(line: str) -> list[str]:
    """`line` cut into pieces of at most `PIECE` bytes, between characters."""
    data, pieces = line.encode(), []
    while len(data) > PIECE:
        cut = PIECE
        while data[cut] & 0xC0 == 0x80:  # never within a character
            cut -= 1
        pieces.append(data[:cut].decode())
        data = data[cut:]
    return [*pieces, data.decode()]
