"""How many tokens a text takes, without a tokenizer.

Each byte has a fixed weight by its class, so an estimate costs a few passes at memory speed, and text that is appended
never makes it smaller. The weights lean upwards: an estimate that is too high compresses a little early, one that is
too low runs into the window.

Error, measured: on the 81 distinct prompts of 23 recorded runs (terminal output and English instructions, Qwen2.5
tokenizer, 20 to 770 tokens each) the estimate was 0.6 to 1.3 times the true number, half of them within 15 %. Beyond
that nothing was measured: digits are counted one token each, so a tokenizer that groups them is overestimated up to
threefold on pure numbers; base64, hex and scripts other than Latin can be off by a factor of two either way.
`calibration` removes the constant part of the error as soon as the service has counted one prompt.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Literal

from harness.types import Message, Usage

MESSAGE_OVERHEAD = 8
"""Tokens that a chat template spends on one message (role, separators)."""

_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_SPACES = b" \t\r"
_HIGH = bytes(range(0x80, 0x100))
# Weights in hundredths of a token per byte. What is in no class is punctuation or a control character.
_WEIGHTS: tuple[tuple[bytes, int], ...] = ((_LETTERS, 25), (_DIGITS, 120), (_SPACES, 10), (b"\n", 20), (_HIGH, 60))
_OTHER = 85

# A usage may be older than the history (replies that failed are not counted), so its word is taken within bounds.
_LOWEST, _HIGHEST = 0.75, 3.0


def count_text(text: str) -> int:
    """Estimated tokens of a text; 0 for the empty one. Never smaller for a longer text with the same beginning."""
    rest = text.encode("utf-8", "surrogatepass")
    hundredths = 0
    for members, weight in _WEIGHTS:
        others = rest.translate(None, members)
        hundredths += weight * (len(rest) - len(others))
        rest = others
    return -(-(hundredths + _OTHER * len(rest)) // 100)


def count(messages: Iterable[Message]) -> int:
    """Estimated tokens of a conversation, the overhead of each message included."""
    return sum(count_text(message.content) + MESSAGE_OVERHEAD for message in messages)


def calibration(history: Sequence[Message], usage: Usage) -> float:
    """True tokens per estimated token, from the last reply's usage; 1.0 when nothing can be learnt from it.

    `usage` is taken as that of the call that produced the last message, an assistant's.
    """
    if usage.prompt_tokens is None or not history or history[-1].role != "assistant":
        return 1.0
    guess = count(history[:-1])
    return min(_HIGHEST, max(_LOWEST, usage.prompt_tokens / guess)) if guess else 1.0


def clip(text: str, limit: int, keep: Literal["head", "tail"]) -> str:
    """`text`, or as much of its head or tail as fits `limit` estimated tokens together with a mark of what is gone."""
    if count_text(text) <= limit:
        return text
    low, high = 0, len(text)  # the longest part that fits lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        if count_text(_part(text, middle, keep)) <= limit:
            low = middle
        else:
            high = middle
    return _part(text, low, keep) if low else ""


def _part(text: str, length: int, keep: Literal["head", "tail"]) -> str:
    mark = f"[{len(text) - length} characters left out]"
    return f"{text[:length]}\n{mark}" if keep == "head" else f"{mark}\n{text[len(text) - length :]}"
