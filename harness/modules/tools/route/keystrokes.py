"""Everything is keystrokes."""

from __future__ import annotations

from harness.context import Context
from harness.errors import EngineRefusal, Stopped
from harness.keys import split_keystrokes
from harness.parsing import clamp_duration
from harness.registry import function
from harness.types import Command, Routed

# Far more keys than anyone presses at once, and fewer than the engine takes in one request.
MAX_PARTS = 5_000


@function(
    module="tools",
    point="route",
    describes="Type every command into the terminal and wait for its duration; helper commands are not run.",
    order=10,
)
def keystrokes(command: Command, ctx: Context) -> Routed:
    """A command that is exactly a key name presses the key; all else is literal text (`harness.keys`)."""
    parts = split_keystrokes(command.keystrokes)
    if len(parts) > MAX_PARTS:
        return Routed(command, error=f"nothing was typed: {len(parts)} separate keys and texts in one command")
    try:
        ctx.terminal.send(parts, wait=clamp_duration(command.duration, ctx.limits.max_wait))
    except Stopped:
        raise
    except EngineRefusal as refusal:
        return Routed(command, error=f"nothing was typed: {refusal.message}")
    return Routed(command)
