"""Never compress: what does not fit is the model service's to refuse."""

from __future__ import annotations

from harness.context import Context
from harness.registry import function
from harness.types import Pending


@function(
    module="context",
    point="fit",
    describes="Send the whole history, always; a prompt that does not fit is not rescued.",
    order=90,
)
def none(pending: Pending, ctx: Context) -> str:
    return pending.prompt
