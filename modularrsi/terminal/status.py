"""What the host can see of a pane's program: is it busy, is its line discipline canonical, does it wait for more.

All of it is a guess about a hostile program and decides nothing but how text is delivered and what is shown.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PS2 = ">"
_SHELLS = frozenset({"bash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox"})


def canonical_eof(tty: str) -> str | None:
    """The end-of-file character of a terminal in canonical mode; "" in any other mode, None when it cannot be seen."""
    try:
        with _opened(tty) as descriptor:
            attributes = termios.tcgetattr(descriptor)
    except (OSError, termios.error):
        return None
    if not attributes[3] & termios.ICANON:
        return ""
    eof = attributes[6][termios.VEOF]
    return eof.decode("latin-1") if isinstance(eof, bytes) and eof != b"\x00" else None


def unread_input(tty: str) -> int | None:
    """How many bytes of input the terminal's program has not read yet; None when it cannot be seen."""
    try:
        with _opened(tty) as descriptor:
            return struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"))[0]
    except OSError:
        return None


@contextmanager
def _opened(tty: str) -> Iterator[int]:
    descriptor = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def foreground_busy(pane_pid: int) -> bool | None:
    """Whether another program than the pane's shell has the pane's foreground (proc(5): `tpgid`, `pgrp`).

    Known for a shell that is the pane's own process, and for a shell inside bubblewrap. None for everything else (a
    container's client shows only itself) and where there is no /proc.
    """
    pane = _process(pane_pid)
    if pane is None or pane.terminal_group <= 0:
        return None
    if pane.name in _SHELLS:
        return pane.terminal_group != pane.group
    if pane.name != "bwrap" or pane.terminal_group == pane.group:
        return None
    return _has_group_above(pane.terminal_group, pane)


def awaits_more(row: str, cursor_column: int) -> bool:
    """The cursor stands right after a lone secondary prompt (POSIX PS2, "> ")."""
    return row.rstrip() == PS2 and cursor_column == len(PS2) + 1


class _Process:
    """The fields of /proc/<pid>/stat that are needed here."""

    def __init__(self, name: str, parent: int, group: int, session: int, terminal_group: int) -> None:
        self.name = name
        self.parent = parent
        self.group = group
        self.session = session
        self.terminal_group = terminal_group


def _process(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    name = text[text.find("(") + 1 : text.rfind(")")]
    fields = text[text.rfind(")") + 2 :].split()
    return _Process(name, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[5]))


def _has_group_above(leader: int, pane: _Process) -> bool:
    """Whether a process between `leader` and the pane leads a group of its own: then that one is the shell, and
    `leader` its job. A leader that has gone was a job."""
    current = _process(leader)
    if current is None:
        return True
    for _ in range(64):
        pid, current = current.parent, _process(current.parent)
        if current is None or current.group == pane.group or current.session != pane.session:
            return False
        if current.group == pid:
            return True
    return True
