"""Completion counts when it is declared twice in a row."""

from __future__ import annotations

from harness.context import Context
from harness.registry import function
from harness.types import Advice, Turn


@function(
    module="completion",
    point="check",
    describes="Stop when the agent declares the task complete in two turns in a row.",
    order=10,
)
def declared_twice(turn: Turn, ctx: Context) -> Advice:
    """Reads `State.pending_completion`, which the kernel sets after each `decide`: the turn declared the task complete
    and the run goes on. A turn without the claim clears it; an unreadable reply never reaches `decide`, and leaves it.
    """
    if not turn.reply.complete:
        return Advice(False, "the task has not been declared complete")
    if not ctx.state.pending_completion:
        return Advice(False, "the task has been declared complete once and not confirmed yet")
    return Advice(True, "the task was declared complete twice in a row")
