"""Say what was wrong with a reply and ask for another."""

from __future__ import annotations

from harness import tokens
from harness.context import Context
from harness.registry import function
from harness.types import Fault, Recovery, Reply

# Terminus-2 asks for ever. Runs that never leave a format error are a known complaint about agents that do
# (SWE-agent/mini-swe-agent#863), and one in 23 recorded runs of a 1.5B model sent nothing readable at all. Ten leaves
# room to recover and bounds the cost.
MOST_IN_A_ROW = 10

# A prompt that still does not fit costs several refused requests each time (`context/fit` tries four things).
MOST_OVERFLOWS = 3

# Errors and warnings quote the reply; a parser that quotes all of it must not fill the window.
MOST_TOKENS = 1_000


@function(
    module="agent_loop",
    point="recover",
    describes="Name the error and ask for a proper reply; after ten in a row, end the run.",
    order=10,
)
def ask_again(fault: Fault, ctx: Context) -> Recovery:
    """Unreadable: the error and a request for a proper reply. Truncated: a request for smaller pieces (the kernel has
    tried the grammar's salvage before). Overflow: a short prompt instead of the long one. Unavailable: the end, for the
    engine has retried already.

    Ends the run with "model_unavailable", "faults", or "context_overflow".
    """
    if fault.kind == "unavailable":
        return Recovery(stop="model_unavailable")
    if fault.kind == "overflow" and (fault.streak >= MOST_OVERFLOWS or not ctx.limits.summarize):
        return Recovery(stop="context_overflow")
    if fault.streak >= MOST_IN_A_ROW:
        return Recovery(stop="faults")
    words = {"truncated": _truncated, "overflow": _overflow}.get(fault.kind, _unreadable)
    return Recovery(prompt=words(fault, ctx))


def _unreadable(fault: Fault, ctx: Context) -> str:
    reply = fault.reply or Reply(error=fault.message)
    return (
        "Your last reply could not be read, and nothing of it was run:\n"
        f"ERROR: {tokens.clip(reply.error or fault.message, MOST_TOKENS, 'head')}\n{_warnings(reply)}\n"
        f"Please correct this and send a proper {ctx.run.grammar().noun}."
    )


def _truncated(fault: Fault, ctx: Context) -> str:
    grammar, limit = ctx.run.grammar(), ctx.limits.output_tokens
    longest = f"the limit of {limit} tokens" if limit else "the longest reply the model may give"
    return (
        f"ERROR: your last reply was cut off at {longest}. NONE of its actions was run.\n"
        f"{_warnings(grammar.parse(fault.text))}"
        "Ask for the actions again in smaller pieces: write long files in several parts, over several replies, "
        f"and keep each {grammar.noun} short."
    )


def _overflow(fault: Fault, ctx: Context) -> str:
    return (
        "What you should have been told now was too long for your context window and was left out. "
        f"Go on with the task: send a {ctx.run.grammar().noun} that looks at the state anew, with little output."
    )


def _warnings(reply: Reply) -> str:
    """A block of lines, or ""."""
    if not reply.warnings:
        return ""
    lines = "\n".join(f"- {warning}" for warning in reply.warnings)
    return f"WARNINGS:\n{tokens.clip(lines, MOST_TOKENS, 'head')}\n"
