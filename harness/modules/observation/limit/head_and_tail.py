"""The beginning and the end of what is too long."""

from __future__ import annotations

from harness.context import Context
from harness.registry import function
from harness.text import cut_bytes


@function(
    module="observation",
    point="limit",
    describes="Keep the first and the last half of the allowed bytes, and say how many are missing in between.",
    order=10,
)
def head_and_tail(text: str, ctx: Context) -> str:
    """As in Terminus-2 the limit counts the bytes of the text that is kept; the line about the gap comes on top."""
    limit = ctx.limits.observation_bytes
    cut = cut_bytes(text, limit)
    if not cut.omitted:
        return cut.head
    gap = f"[... {cut.omitted} bytes left out: at most {limit} are shown. To see the rest, look at it in parts ...]"
    return f"{cut.head}\n{gap}\n{cut.tail}"
