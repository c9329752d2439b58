"""Write a file without going through the shell."""

from __future__ import annotations

from harness.context import Context
from harness.errors import EngineRefusal, Stopped
from harness.registry import function
from harness.text import replace_surrogates
from harness.types import CommandCall


@function(
    module="tools",
    point="command",
    describes="Write a file exactly as given: no quoting, no heredoc, tabs and backslashes stay as they are.",
    usage="write_file PATH\nCONTENT…\n"
    "The first line names the file (absolute path), all following lines are its content. "
    "Missing folders are made; an existing file is replaced.",
    order=10,
)
def write_file(call: CommandCall, ctx: Context) -> str:
    path = _path(call.head)
    if not path:
        return "ERROR: nothing was written: the first line must be `write_file PATH`, and the content follows it."
    data = replace_surrogates(call.body).encode("utf-8")
    try:
        written = ctx.sandbox.write_file(path, data)
    except Stopped:
        raise
    except EngineRefusal as refusal:
        return f"ERROR: {path} was not written: {refusal.message}"
    if written != len(data):
        return f"ERROR: only {written} of {len(data)} bytes of {path} were written."
    return f"Wrote {len(data)} bytes ({len(call.body.splitlines())} lines) to {path}."


def _path(head: str) -> str:
    """The path, without the quotes that a shell would have taken away."""
    path = replace_surrogates(head).strip()
    if len(path) >= 2 and path[0] == path[-1] and path[0] in "'\"":
        path = path[1:-1]
    return path.replace("\0", "\ufffd")
