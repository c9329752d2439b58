"""Only what a reader would see."""

from __future__ import annotations

from harness.context import Context
from harness.registry import function
from harness.text import clean_text


@function(
    module="observation",
    point="refine",
    describes="Take out control sequences and characters; a line redrawn by a progress bar keeps its last state.",
    order=10,
)
def clean_controls(text: str, ctx: Context) -> str:
    return clean_text(text)
