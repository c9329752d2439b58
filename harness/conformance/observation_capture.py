"""What every `observation/capture` keeps: the agent sees what happened, and learns what became of its session."""

from __future__ import annotations

from typing import Literal

from harness.conformance.base import ContextFactory, require
from harness.conformance.odd_text import ODD
from harness.conformance.scenes import checked
from harness.errors import Stopped
from harness.points import Capture
from harness.scripted import Effect, ScriptedContext, ScriptedTerminal
from harness.types import Snapshot


def case_shows_what_is_new(fn: Capture, make_context: ContextFactory) -> None:
    """Output since the last look is in the text, look after look."""
    ctx = make_context(terminal=[f"echo marker-{number}\nmarker-{number}\n$ " for number in range(3)])
    _look(fn, ctx)
    for number in range(3):
        ctx.terminal.send(["x\n"])
        text = _look(fn, ctx).text
        require(f"marker-{number}" in text, f"look {number + 1} does not show the new output")


def case_shows_long_output_from_its_beginning(fn: Capture, make_context: ContextFactory) -> None:
    """New output longer than the screen is there from its first line: cutting it is `limit`'s work."""
    lines = "\n".join(f"line-{number}." for number in range(300))
    ctx = make_context(terminal=[f"run\n{lines}\n$ "])
    _look(fn, ctx)
    ctx.terminal.send(["run\n"])
    text = _look(fn, ctx).text
    for wanted in ("line-0.", "line-150.", "line-299."):
        require(wanted in text, f"{wanted!r} of 300 lines is missing")


def case_shows_the_screen_when_news_cannot_be_told(fn: Capture, make_context: ContextFactory) -> None:
    """After the screen was cleared, or taken over by a full-screen program, its text is shown."""
    for effect in (Effect("after-clear\n$ ", clear=True), Effect("~\n~\n-- INSERT --", clear=True, alternate=True)):
        ctx = make_context(terminal=[effect])
        _look(fn, ctx)
        ctx.terminal.send(["x\n"])
        require(effect.output.split("\n")[-2] in _look(fn, ctx).text, f"{effect.output!r} is not shown")


def case_is_never_blank(fn: Capture, make_context: ContextFactory) -> None:
    """When nothing happened the agent still sees where it is."""
    ctx = make_context(terminal=["", ""])
    for _ in range(3):
        require(bool(_look(fn, ctx).text.strip()), "a blank observation")
        ctx.terminal.send([])


def case_tells_that_the_session_is_new(fn: Capture, make_context: ContextFactory) -> None:
    """A session that had died and was started anew is mentioned: its variables and folder are gone."""
    told, untold = (_after(fn, make_context, Effect("$ ", clear=True, recreated=new)) for new in (True, False))
    require(told.text != untold.text, "a recreated session looks like a cleared screen")


def case_tells_that_the_shell_waits(fn: Capture, make_context: ContextFactory) -> None:
    """An open quote or heredoc is mentioned: the next command would become part of it."""
    told, untold = (_after(fn, make_context, Effect("> ", waiting=waits)) for waits in (True, False))
    require(told.text != untold.text, "an open heredoc looks like a prompt")


def case_keeps_the_flags(fn: Capture, make_context: ContextFactory) -> None:
    """`busy`, `waiting`, `alternate` and `recreated` of the reading stay in the snapshot, for guards and checks."""
    seen = _after(fn, make_context, Effect("x", clear=True, alternate=True, busy=True, waiting=True, recreated=True))
    flags = (seen.busy, seen.waiting, seen.alternate, seen.recreated)
    require(flags == (True, True, True, True), f"busy, waiting, alternate, recreated are {flags}")


def case_only_looks(fn: Capture, make_context: ContextFactory) -> None:
    """Looking types nothing."""
    terminal = ScriptedTerminal()
    _look(fn, make_context(terminal=terminal))
    require(not terminal.sent, f"typed {terminal.sent}")


def case_survives_odd_output(fn: Capture, make_context: ContextFactory) -> None:
    """Whatever the terminal shows, a look does not raise."""
    for odd in ODD.values():
        _after(fn, make_context, Effect(odd))


def case_the_end_of_the_run_passes(fn: Capture, make_context: ContextFactory) -> None:
    """`Stopped` is not swallowed."""
    try:
        fn(make_context(terminal=_Stopping()))
    except Stopped:
        return
    require(False, "`Stopped` was swallowed")


class _Stopping(ScriptedTerminal):
    def read(self, scope: Literal["screen", "scrollback", "new"] = "new") -> Snapshot:
        raise Stopped("out of time")


def _after(fn: Capture, make_context: ContextFactory, effect: Effect) -> Snapshot:
    ctx = make_context(terminal=[effect])
    _look(fn, ctx)
    ctx.terminal.send(["x\n"])
    return _look(fn, ctx)


def _look(fn: Capture, ctx: ScriptedContext) -> Snapshot:
    return checked(fn(ctx), Snapshot)
