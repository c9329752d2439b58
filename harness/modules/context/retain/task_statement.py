"""The task must survive every compression of the history."""

from __future__ import annotations

from harness import tokens
from harness.context import Context
from harness.registry import function

# Instructions of public task sets stay far below this; one that does not would eat the window it is to survive in.
MOST_TOKENS = 8_000


@function(
    module="context",
    point="retain",
    describes="Keep the task's instruction word for word.",
    order=10,
)
def task_statement(ctx: Context) -> str:
    """The instruction verbatim, without what the first prompt adds to it; "" when there is none."""
    instruction = ctx.task.instruction
    if not instruction.strip():
        return ""
    return f"The task, word for word:\n{tokens.clip(instruction, MOST_TOKENS, keep='head')}"
