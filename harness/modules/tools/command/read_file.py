"""Show a file, or some of its lines, whatever its size."""

from __future__ import annotations

import re

from harness.context import Context
from harness.errors import EngineRefusal, Stopped
from harness.registry import function
from harness.text import clean_text, cut_bytes, decode_bytes, replace_surrogates
from harness.types import CommandCall

MAX_BYTES = 1_000_000
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@function(
    module="tools",
    point="command",
    describes="Show a file with line numbers, or only some of its lines.",
    usage="read_file PATH [FIRST[-LAST]]\nread_file /app/main.c\nread_file /app/main.c 120-180",
    order=20,
)
def read_file(call: CommandCall, ctx: Context) -> str:
    """At most the first 1,000,000 bytes are read, and what is shown fits the observation's limit; both are said."""
    path, first, last = _arguments(call.head)
    if not path:
        return "ERROR: name a file: `read_file PATH [FIRST[-LAST]]`."
    try:
        data = ctx.sandbox.read_file(path, MAX_BYTES)
    except Stopped:
        raise
    except EngineRefusal as refusal:
        return f"ERROR: {path} was not read: {refusal.message}"
    if b"\0" in data[:8_000]:
        return f"{path} is a binary file ({_size(data)}); it is not shown."
    return _show(path, data, first, last, ctx.limits.observation_bytes)


def _arguments(head: str) -> tuple[str, int, int | None]:
    """(path, first line, last line), lines counted from 1; the path without the quotes that a shell would take away."""
    path = replace_surrogates(head).strip().replace("\0", "\ufffd")
    words = path.rsplit(maxsplit=1)
    match = _RANGE.fullmatch(words[1]) if len(words) == 2 else None
    first, last = 1, None
    if match:
        path, first = words[0], max(1, int(match[1]))
        last = int(match[2] or first)
    if len(path) >= 2 and path[0] == path[-1] and path[0] in "'\"":
        path = path[1:-1]
    return path, first, last


def _size(data: bytes) -> str:
    return f"{MAX_BYTES} bytes or more" if len(data) >= MAX_BYTES else f"{len(data)} bytes"


def _show(path: str, data: bytes, first: int, last: int | None, limit: int) -> str:
    lines = decode_bytes(data).split("\n")
    if lines[-1] == "":
        lines.pop()
    chosen = lines[first - 1 : last]
    title = f"{path}: {_size(data)}, {len(lines)} lines"
    if not chosen:
        return f"{title}; there is nothing from line {first} on."
    numbered = "\n".join(f"{number:>5}  {clean_text(line)}" for number, line in enumerate(chosen, first))
    cut = cut_bytes(numbered, max(0, limit - 500))
    text = f"{cut.head}\n[… {cut.omitted} bytes left out; name fewer lines …]\n{cut.tail}" if cut.omitted else cut.head
    return f"{title}; lines {first} to {first + len(chosen) - 1}:\n{text}"
