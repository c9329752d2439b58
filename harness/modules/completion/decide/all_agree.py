"""Stop when a check says so and none objects."""

from __future__ import annotations

from collections.abc import Sequence

from harness.context import Context
from harness.registry import function
from harness.types import Advice, Decision, Turn


@function(
    module="completion",
    point="decide",
    describes="Stop when at least one check says stop and no check objects.",
    order=10,
)
def all_agree(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    """When the agent claims completion and is not believed, it is told why and how to declare it once more."""
    objections = _reasons(advice, stop=False)
    approvals = _reasons(advice, stop=True)
    if approvals and not objections:
        return Decision(True, "; ".join(filter(None, approvals)))
    reason = "; ".join(filter(None, objections)) or "no check says that the task is complete"
    if not turn.reply.complete:
        return Decision(False, reason)
    return Decision(False, reason, f"Not taken as complete yet: {reason}.\n{ctx.run.grammar().confirm}")


def _reasons(advice: Sequence[Advice], stop: bool) -> list[str]:
    return [item.reason for item in advice if item.stop is stop]
