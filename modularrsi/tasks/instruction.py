"""The instruction as an agent may see it: without the canary lines that mark benchmark data for crawlers."""

from __future__ import annotations

import re

_GUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-"
_CANARY = re.compile(rf"<!--(?=.*canary).*-->|(?:#|//)(?=.*canary)(?=.*(?:{_GUID}|BENCHMARK DATA)).*", re.IGNORECASE)


def strip_canary(text: str) -> str:
    """Without leading comment lines that carry a canary. A heading that merely uses the word stays."""
    lines = text.replace("\r\n", "\n").split("\n")
    start = 0
    for index, line in enumerate(lines):
        if _CANARY.fullmatch(line.strip()):
            start = index + 1
        elif line.strip():
            break
    return "\n".join(lines[start:]).lstrip("\n") if start else "\n".join(lines)
