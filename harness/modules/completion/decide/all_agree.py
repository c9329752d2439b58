"""Stop when a check says so and none objects."""

from __future__ import annotations

from collections.abc import Sequence

from harness.context import Context
from harness.registry import function
from harness.types import Advice, Decision, Turn

# A reason goes into the agent's next prompt: one is cut at this many characters, and so many are shown.
MOST_CHARS, MOST_REASONS = 500, 8


@function(
    module="completion",
    point="decide",
    describes="Stop when at least one check says stop and no check objects.",
    order=10,
)
def all_agree(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    """When the agent claims completion and is not believed, it is told why and how to declare it once more."""
    objections = [item for item in advice if item.stop is False]
    approvals = [item for item in advice if item.stop is True]
    if approvals and not objections:
        return Decision(True, _reasons(approvals))
    reason = _reasons(objections) or "no check says that the task is complete"
    if not turn.reply.complete:
        return Decision(False, reason)
    return Decision(False, reason, f"Not taken as complete yet: {reason}.\n{ctx.run.grammar().confirm}")


def _reasons(advice: Sequence[Advice]) -> str:
    reasons = dict.fromkeys(item.reason[:MOST_CHARS] for item in advice if item.reason)
    return "; ".join(list(reasons)[:MOST_REASONS])
