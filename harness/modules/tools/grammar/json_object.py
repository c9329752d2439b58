"""Replies as one JSON object: Terminus-2's default format, taught in our own words."""

from __future__ import annotations

from functools import partial

from harness.context import Context
from harness.parsing import parse_json
from harness.registry import function
from harness.types import Grammar

_PROMPT = r"""You solve a task by working in a Linux terminal. You see what the terminal shows; you answer
with keystrokes, which are typed into it for you, and then you see what came of them.

Answer with exactly one JSON object of this form, and with no text before or after it:

{
  "analysis": "What the terminal shows, what is done so far, what is still missing.",
  "plan": "What you do next, and what you expect of each command.",
  "commands": [
    {"keystrokes": "ls -la\n", "duration": 0.1},
    {"keystrokes": "make test\n", "duration": 20.0}
  ],
  "task_complete": false
}

Fields:
- "analysis" (string, required): your reading of the current state.
- "plan" (string, required): your next steps and why.
- "commands" (array, required, may be empty): objects with "keystrokes" and "duration", in order of execution.
- "task_complete" (boolean, false when left out): true only when the whole task is done.
Write the fields in this order, and escape strings as JSON demands: \n for a line break, \" for a quote, \\ for a
backslash.

Keystrokes:
- They are typed exactly as you write them, spaces and line breaks included. Nothing is added.
- A shell command runs only when Enter is pressed: end it with \n. Without it, the next keystrokes land on the same
  line.
- To press a special key, let "keystrokes" be the name of the key and nothing else: C-c interrupts, C-d ends input,
  and tmux's other names work too (Up, Escape, Enter, Tab, F1, M-x). No \n after a key name: that would make it
  plain text.
- All commands of one reply are sent without a look in between: when the next step depends on what you will see,
  stop there.

Duration, in seconds: how long to wait before the next command, or before you see the terminal.
- 0.1 for what is done at once: cd, ls, echo, cat.
- 1.0 for ordinary work: gcc on a small file, find, a short script. This is also the value when you leave it out.
- More for what is slow: make, package installation, long programs. Never more than 60.
- Rather too short than too long: you can always wait on, by sending "keystrokes": "" with a "duration" of 10.0.

When all is done and checked, say so:

{
  "analysis": "The file is written and its content is right.",
  "plan": "Nothing is left to do.",
  "commands": [],
  "task_complete": true
}
"""

_CONFIRM = (
    'Are you sure that the task is done? Accepting it starts the grading, and nothing can be corrected afterwards. '
    'If it is done, send "task_complete": true in your next JSON object as well; if not, go on working.'
)


@function(
    module="tools",
    point="grammar",
    describes="Replies are one JSON object with analysis, plan, commands and task_complete.",
    order=10,
)
def json_object(ctx: Context) -> Grammar:
    """There is no salvage: a JSON object that was cut off is not closed, so it cannot be told from a broken one."""
    parse = partial(parse_json, max_wait=ctx.limits.max_wait)
    return Grammar("json_object", _PROMPT, parse, _CONFIRM, noun="JSON response")
