"""Helper commands by their first word, everything else as keystrokes."""

from __future__ import annotations

import re

from harness.context import Context
from harness.errors import EngineRefusal, Stopped
from harness.keys import split_keystrokes
from harness.parsing import clamp_duration
from harness.registry import function
from harness.types import Command, Routed

# Far more keys than anyone presses at once, and fewer than the engine takes in one request.
MAX_PARTS = 5_000
_FIRST_WORD = re.compile(r"[ \t]*+(\S++)[ \t]?")


@function(
    module="tools",
    point="route",
    describes="Run a helper command when its name is the first word of the first line; type everything else.",
    order=20,
    dispatches_commands=True,
)
def helpers_first(command: Command, ctx: Context) -> Routed:
    """The rest of the first line is the helper's head, the following lines its body, byte for byte. A helper's name
    anywhere else (`echo write_file`, inside a heredoc) is text."""
    line, _, body = command.keystrokes.partition("\n")
    match = _FIRST_WORD.match(line)
    helper = match[1] if match and match[1] in ctx.active("tools/command") else ""
    try:
        if match and helper:
            return Routed(command, helper=helper, output=ctx.call_command(helper, line[match.end() :], body))
        return _type(command, ctx)
    except Stopped:
        raise
    except EngineRefusal as refusal:
        return Routed(command, helper=helper, error=refusal.message)


def _type(command: Command, ctx: Context) -> Routed:
    parts = split_keystrokes(command.keystrokes)
    if len(parts) > MAX_PARTS:
        return Routed(command, error=f"nothing was typed: {len(parts)} separate keys and texts in one command")
    ctx.terminal.send(parts, wait=clamp_duration(command.duration, ctx.limits.max_wait))
    return Routed(command)
