"""What is new on the terminal since the last look."""

from __future__ import annotations

import dataclasses

from harness.context import Context
from harness.registry import function
from harness.types import Snapshot

_NEW = "New Terminal Output:"
_SCREEN = "Current Terminal Screen:"
_RECREATED = (
    "[The terminal session had ended and was started anew: its working directory, its variables and the programs "
    "that ran in it are gone. Files are as they were.]"
)
_WAITING = (
    "[The shell is waiting for the rest of your input: a quote, a heredoc or a block is still open. "
    "Finish it, or press C-c to give it up.]"
)


@function(
    module="observation",
    point="capture",
    describes="What is new since the last look, from the old prompt line on; the screen when that cannot be told.",
    order=10,
)
def incremental(ctx: Context) -> Snapshot:
    """As Terminus-2 does: new output if there is some, else the screen (it was cleared, a full-screen program has it,
    nothing was printed), and the screen at the first look, to which nothing is new. Says so when the session is a new
    one and when the shell waits for more input."""
    seen = ctx.terminal.read("new")
    fresh = seen.complete and bool(seen.text.strip()) and "looked" in ctx.memo
    ctx.memo["looked"] = True
    shown = ctx.terminal.read("screen") if seen.complete and not fresh else seen
    notes = [_RECREATED] if seen.recreated or shown.recreated else []
    parts = [*notes, _NEW if fresh else _SCREEN, shown.text]
    if seen.waiting:
        parts.append(_WAITING)
    return dataclasses.replace(seen, text="\n".join(parts))
