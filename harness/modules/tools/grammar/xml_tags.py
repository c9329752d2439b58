"""Replies in XML-like tags: Terminus-2's second format, taught in our own words."""

from __future__ import annotations

from functools import partial

from harness.context import Context
from harness.parsing import parse_xml, salvage_xml
from harness.registry import function
from harness.types import Grammar

_PROMPT = r"""You solve a task by working in a Linux terminal. You see what the terminal shows; you answer
with keystrokes, which are typed into it for you, and then you see what came of them.

Answer with exactly one block of this form, and with no text before or after it:

<response>
<analysis>What the terminal shows, what is done so far, what is still missing.</analysis>
<plan>What you do next, and what you expect of each command.</plan>
<commands>
<keystrokes duration="0.1">ls -la
</keystrokes>
<keystrokes duration="20.0">make test
</keystrokes>
</commands>
<task_complete>false</task_complete>
</response>

Tags, in this order:
- analysis (required): your reading of the current state.
- plan (required): your next steps and why.
- commands (required; may be empty when the task is complete): one keystrokes tag for each command, in order.
- task_complete (may be left out): true only when the whole task is done.

Keystrokes:
- Everything between the tags is typed exactly as it stands, spaces and line breaks included. Nothing is added, and
  there are no entities: write < > and & as they are.
- A shell command runs only when Enter is pressed: put the closing tag on a line of its own, so that the text ends
  with a line break. Without it, the next keystrokes land on the same line. The characters \n are not a line break.
- To press a special key, let its name be all that stands between the tags: C-c interrupts, C-d ends input, and
  tmux's other names work too (Up, Escape, Enter, Tab, F1, M-x). No line break after a key name: that would make it
  plain text.
- All commands of one reply are sent without a look in between: when the next step depends on what you will see,
  stop there.

Duration, in seconds, in double quotes: how long to wait before the next command, or before you see the terminal.
- 0.1 for what is done at once: cd, ls, echo, cat.
- 1.0 for ordinary work: gcc on a small file, find, a short script. This is also the value when you leave it out.
- More for what is slow: make, package installation, long programs. Never more than 60.
- Rather too short than too long: you can always wait on, by sending empty keystrokes with duration="10.0".

When all is done and checked, say so:

<response>
<analysis>The file is written and its content is right.</analysis>
<plan>Nothing is left to do.</plan>
<commands></commands>
<task_complete>true</task_complete>
</response>
"""

_CONFIRM = (
    "Are you sure that the task is done? Accepting it starts the grading, and nothing can be corrected afterwards. "
    "If it is done, send <task_complete>true</task_complete> in your next response as well; if not, go on working."
)


@function(
    module="tools",
    point="grammar",
    describes="Replies are XML-like tags: keystrokes need no escaping, and a reply cut off after its end is salvaged.",
    order=20,
)
def xml_tags(ctx: Context) -> Grammar:
    parse = partial(parse_xml, max_wait=ctx.limits.max_wait)
    return Grammar("xml_tags", _PROMPT, parse, _CONFIRM, noun="response", salvage=salvage_xml)
