"""The task must survive every compression of the history."""

from __future__ import annotations

from harness.context import Context
from harness.registry import function

# Instructions of public task sets stay far below this; one that does not would eat the window it is to survive in.
MOST_CHARS = 32_000


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
    left_out = len(instruction) - MOST_CHARS
    mark = f"\n[{left_out} more characters in the first prompt]" if left_out > 0 else ""
    return f"The task, word for word:\n{instruction[:MOST_CHARS]}{mark}"
