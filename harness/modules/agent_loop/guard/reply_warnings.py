"""Tell the agent what was odd about a reply that could be used all the same."""

from __future__ import annotations

from harness import tokens
from harness.context import Context
from harness.registry import function
from harness.types import Guidance, Turn

# Warnings quote the reply; a parser that quotes all of it must not fill the window.
MOST_TOKENS = 1_000


@function(
    module="agent_loop",
    point="guard",
    describes="Show the parser's warnings about the last reply before the next observation.",
    order=10,
)
def reply_warnings(turn: Turn, ctx: Context) -> Guidance:
    """Once per turn, after its commands ran. Silent when the reply claims completion, as in Terminus-2: the question
    whether the agent is sure should stand alone."""
    if turn.stage != "observed" or turn.reply.complete or not turn.reply.warnings:
        return Guidance()
    lines = "\n".join(f"- {warning}" for warning in turn.reply.warnings)
    return Guidance(feedback=f"Your last reply was used, but with warnings:\n{tokens.clip(lines, MOST_TOKENS, 'head')}")
