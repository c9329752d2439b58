"""The terminal of one rollout: a private tmux on the host with the sandbox's shell in its one pane.

The shell is what `Sandbox.terminal_command()` names. For literal text to arrive as it is, that shell should be started
without history expansion (`bash --login +H`), with `TERM=screen-256color` and the default PS2, and without a
`--new-session` that would take the terminal, and with it Ctrl-C, away from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.types import Key, Snapshot
from modularrsi.errors import SandboxError
from modularrsi.terminal import incremental, literal, server, status
from modularrsi.terminal.control import CommandFailed, ControlClient, ReplyTooLarge, lost
from modularrsi.terminal.framing import quote
from modularrsi.terminal.incremental import Mark, View
from modularrsi.terminal.keys import key_name

Scope = Literal["screen", "scrollback", "new"]
Command = Sequence[str] | Callable[[], Sequence[str]]

MAX_WAIT = 60.0
TEXT_LIMIT = 1_000_000  # characters of one Snapshot: a line of the worker's protocol must hold them
MAX_RECREATIONS = 10  # within a minute
_PROMPT_TIMEOUT = 5.0
_SETTLE = 0.15
_MODE_CHANGE = 1.0
_ABSORB_TRIES = 40
_TYPED_CHUNK = 512
_STATE = "#{pane_dead} #{history_size} #{cursor_x} #{cursor_y} #{alternate_on} #{pane_pid} #{pane_tty} #{pane_id}"


@dataclass(frozen=True, slots=True)
class Pane:
    """What tmux says of the pane; `column` and `row` are the cursor's, on the screen."""

    dead: bool
    history: int
    column: int
    row: int
    alternate: bool
    pid: int
    tty: str
    id: str

    @classmethod
    def parse(cls, text: str) -> Pane:
        dead, history, column, row, alternate, pid, tty, pane = text.strip().split(" ")
        return cls(dead == "1", int(history), int(column), int(row), alternate == "1", int(pid), tty, pane)


class TmuxTerminal:
    """`modularrsi.terminal.base.Terminal` on a tmux server of its own.

    `command`: the argv to run in the pane, or what gives it (asked again when the session has to be recreated).
    `folder`: where the private folders of these servers are (for `server.reap`); `name`: unique in it.
    `foreground`: tells whether a program runs in the shell's foreground where the host cannot see that.
    `pane_env`: added to the pane's (otherwise nearly empty) environment.
    `timeout`: seconds after which a tmux that does not answer is given up.
    """

    def __init__(
        self,
        command: Command,
        *,
        folder: Path,
        name: str,
        width: int = 160,
        height: int = 40,
        history_lines: int = 100_000,
        foreground: Callable[[], Awaitable[bool | None]] | None = None,
        pane_env: Mapping[str, str] | None = None,
        timeout: float = 20.0,
    ) -> None:
        self._command = command
        self._folder, self._name = folder, name
        self._width, self._height, self._history_lines = width, height, history_lines
        self._foreground = foreground
        self._env = server.environment(pane_env or {})
        self._control = ControlClient(timeout)
        self._home: Path | None = None
        self._pane = "%0"
        self._mark: Mark | None = None
        self._unread = ""
        self._recreated = False
        self._recreations: deque[float] = deque(maxlen=MAX_RECREATIONS)
        self._entered = 0.0
        self._pasted = False
        self._prompt_is_ps2 = False
        self._lock = asyncio.Lock()

    # ------------------------------------------------------------------------------------------------ the protocol

    async def start(self) -> None:
        """Raises `SandboxError` (`unsupported`, `start_failed`); nothing is left running then."""
        self._home = server.make_home(self._folder, self._name)
        try:
            argv = server.control_argv(self._home, self._argv(), self._width, self._height, self._history_lines)
            await self._control.start(argv, self._env, self._home)
            await self._await_prompt("start_failed")
        except BaseException:
            await self.stop()
            raise

    async def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        steps = [key if isinstance(key, str) else Key(key_name(key.name)) for key in keys]
        async with self._lock:
            recreated = await self._revive()
            for step in steps:
                await (self._press(step.name) if isinstance(step, Key) else self._type(step))
        await asyncio.sleep(clamp_wait(wait))
        return recreated

    async def read(self, scope: Scope = "new") -> Snapshot:
        async with self._lock:
            await self._revive()
            if scope == "new":
                snapshot = await self._read_new()
            else:
                snapshot = await self._read_all(scope)
            self._recreated = False
            return snapshot

    async def stop(self) -> None:
        """End the server and remove its folder. Idempotent, and bounded in time whatever state the server is in."""
        home, self._home = self._home, None
        if home is None:
            return
        with contextlib.suppress(SandboxError, CommandFailed):  # one that goes gives no reply; one that hangs is killed
            await self._control.run("kill-server", timeout=2.0)
        await asyncio.shield(asyncio.gather(self._control.close(), asyncio.to_thread(server.destroy, home)))

    # -------------------------------------------------------------------------------------------------- the session

    def _argv(self) -> list[str]:
        return list(self._command() if callable(self._command) else self._command)

    async def _run(self, *commands: str) -> list[str]:
        try:
            return await self._control.run(*commands)
        except CommandFailed as error:
            raise lost(f"tmux refused a command: {error}") from error

    async def _state(self) -> Pane:
        return Pane.parse((await self._run(f"display-message -p {quote(_STATE)}"))[0])

    async def _await_prompt(self, cause: str) -> None:
        """Until the shell has printed its first prompt (and, where that can be seen, has its line editor ready)."""
        deadline, prompted = time.monotonic() + _PROMPT_TIMEOUT, math.inf
        while time.monotonic() < deadline:
            pane = await self._state()
            self._pane = pane.id
            if pane.dead:
                raise await self._died(cause)
            if pane.column > 0:
                prompted = min(prompted, time.monotonic())
                if status.canonical_eof(pane.tty) == "" or time.monotonic() - prompted > 2 * _SETTLE:
                    break
            await asyncio.sleep(0.005)
        view = await self._view(0)
        self._prompt_is_ps2 = view.cursor_line() == status.PS2

    async def _died(self, cause: str) -> SandboxError:
        said = (await self._run(f"capture-pane -p -J -t {self._pane}"))[0].strip()
        return SandboxError(
            f"the terminal's command ended at once ({server.describe_command(self._argv())}): {said[-300:]}", cause
        )

    async def _revive(self) -> bool:
        """If the shell has ended, start it anew in the same pane; the history stays. True: it was started anew."""
        if not (await self._state()).dead:
            return False
        now = time.monotonic()
        if len(self._recreations) == MAX_RECREATIONS and now - self._recreations[0] < 60:
            raise SandboxError(f"the shell has ended {MAX_RECREATIONS + 1} times within a minute", "shell_lost")
        self._recreations.append(now)
        self._unread = (await self._read_new()).text
        await self._run(f"send-keys -R -t {self._pane}")  # resets modes; the screen goes into the history
        self._mark = incremental.take_mark(await self._view(0))
        self._recreated = True
        await self._run(server.respawn_command(self._pane, self._argv()))
        await self._await_prompt("shell_lost")
        return True

    # ------------------------------------------------------------------------------------------------------ writing

    async def _press(self, name: str) -> None:
        if self._pasted:
            await self._absorbed()
        await self._run(f"send-keys -t {self._pane} -- {quote(name)}")
        self._entered = time.monotonic()

    async def _type(self, text: str) -> None:
        eof, enter = None, await self._enter()
        if literal.needs_paste(text):
            await self._settle()
            eof = status.canonical_eof((await self._state()).tty)
        for step in literal.plan(text, eof, enter):
            if isinstance(step, literal.Typed):
                await self._type_bytes(step.data)
            else:
                await self._paste(step)

    async def _enter(self) -> str:
        """What a newline is typed as: see `literal`."""
        recent = time.monotonic() - self._entered < _MODE_CHANGE
        return "\n" if recent and not (await self._state()).alternate else "\r"

    async def _absorbed(self) -> None:
        """Wait until a paste has been read. A key that raises a signal makes the terminal drop all unread input, and a
        shell that so loses the closing paste mark takes everything, Ctrl-C included, for pasted text from then on."""
        self._pasted = False
        before, quiet = await self._state(), 0
        for _ in range(_ABSORB_TRIES):  # nothing unread: tmux may be between two writes, the shell still drawing
            await asyncio.sleep(_SETTLE / 3)
            pane = await self._state()
            quiet = quiet + 1 if pane == before and not status.unread_input(pane.tty) else 0
            before = pane
            if quiet == 3:
                break

    async def _settle(self) -> None:
        """Give what was just entered a moment to start: whether text is pasted as a whole or in pieces depends on
        the program that reads it."""
        remaining = self._entered + _SETTLE - time.monotonic()
        if remaining > 0:
            await asyncio.sleep(remaining)

    async def _type_bytes(self, data: bytes) -> None:
        for start in range(0, len(data), _TYPED_CHUNK):
            codes = " ".join(f"{byte:02x}" for byte in data[start : start + _TYPED_CHUNK])
            await self._run(f"send-keys -t {self._pane} -H {codes}")
        self._entered = time.monotonic()

    async def _paste(self, step: literal.Pasted) -> None:
        self._pasted = True
        marks = "-p " if step.bracketed else ""
        await self._run(
            f"set-buffer -b text -- {quote(step.text)}",
            f"paste-buffer -d {marks}-s {quote(step.enter)} -b text -t {self._pane}",
        )

    # ------------------------------------------------------------------------------------------------------ reading

    async def _capture(self, start: str) -> tuple[Pane, list[str], list[str]]:
        """State, rows and joined lines from `start` (tmux's numbering: 0 is the top of the screen) at one moment."""
        where = f"-t {self._pane} -S {start}"
        state, rows, lines = await self._run(
            f"display-message -p {quote(_STATE)}", f"capture-pane -p -N {where}", f"capture-pane -p -J {where}"
        )
        return Pane.parse(state), rows.split("\n"), lines.split("\n")

    async def _view(self, first: int) -> View:
        """Rows from number `first`, or from an earlier one when the pane scrolled meanwhile."""
        before = await self._state()
        begin = min(first, before.history)
        pane, rows, lines = await self._capture_bounded(str(begin - before.history))
        if pane.history != before.history:
            begin = 0
            pane, rows, lines = await self._capture_bounded("-")
        begin = max(begin, pane.history + self._height - len(rows))
        return incremental.make_view(begin, rows, lines, pane.history, pane.history + pane.row)

    async def _capture_bounded(self, start: str) -> tuple[Pane, list[str], list[str]]:
        try:
            return await self._capture(start)
        except ReplyTooLarge:
            return await self._capture("-2000")

    async def _read_new(self) -> Snapshot:
        pane = await self._state()
        if pane.alternate:
            return await self._read_all("screen", asked="new")
        view, start = await self._locate()
        complete = start is not None
        if start is None or self._mark is None:
            text = view.text_from(view.first if complete else view.history)
        else:
            text = incremental.fresh_text(self._mark, view, start)
        self._mark = incremental.take_mark(view)
        if self._unread:
            text, self._unread = f"{self._unread}\n{text}", ""
        return await self._snapshot("new", text, complete=complete)

    async def _locate(self) -> tuple[View, int | None]:
        """A view and the number of the first row that is new; None: it cannot be told."""
        if self._mark is None:
            view = await self._view(0)
            return view, view.first
        view = await self._view(self._mark.first)
        start = incremental.changed_from(self._mark, view)
        if start is None:
            view = await self._view(0)
            start = incremental.found_again(self._mark, view)
        return view, start

    async def _read_all(self, scope: Literal["screen", "scrollback"], asked: Scope | None = None) -> Snapshot:
        pane, _, lines = await self._capture_bounded("-" if scope == "scrollback" else "0")
        if scope == "scrollback" and pane.alternate:
            lines = await self._behind_alternate(lines)
        return await self._snapshot(asked or scope, incremental.tidy(lines), complete=asked is None)

    async def _behind_alternate(self, lines: list[str]) -> list[str]:
        """History, then the screen that a full-screen program hides, then that program's screen."""
        shown = (await self._run(f"capture-pane -p -J -t {self._pane} -S 0"))[0].split("\n")
        saved = (await self._run(f"capture-pane -p -J -a -q -t {self._pane}"))[0]
        return [*lines[: len(lines) - len(shown)], *incremental.tidy(saved.split("\n")).split("\n"), *shown]

    async def _snapshot(self, scope: Scope, text: str, complete: bool) -> Snapshot:
        pane, rows, _ = await self._capture("0")
        busy = await self._busy(pane)
        row = rows[pane.row] if pane.row < len(rows) else ""
        waiting = not (busy or pane.alternate or self._prompt_is_ps2) and status.awaits_more(row, pane.column)
        return Snapshot(
            text=bounded(text), scope=scope, complete=complete, alternate=pane.alternate, busy=busy, waiting=waiting,
            recreated=self._recreated, total_lines=pane.history + pane.row + 1,
        )  # fmt: skip

    async def _busy(self, pane: Pane) -> bool | None:
        if self._foreground is not None:
            return await self._foreground()
        return status.foreground_busy(pane.pid)


def clamp_wait(wait: float) -> float:
    """Seconds within [0, MAX_WAIT]; what is no number is 0."""
    is_number = isinstance(wait, int | float) and wait == wait  # not NaN; math.isnan cannot take an int of 400 digits
    return min(max(wait, 0.0), MAX_WAIT) if is_number else 0.0


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """At most about `limit` characters: the beginning and the end, with a line that says how much is missing."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[-(limit // 2) :]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n[... {missing} characters of the terminal's history left out ...]\n{tail}"
