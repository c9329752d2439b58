"""The messages of one call, and how large they can be in tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import Role

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str


def clean(text: str) -> str:
    """Without lone surrogates, which no request and no record can carry."""
    return _SURROGATE.sub("\ufffd", text)


def wire(messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
    """As they are sent."""
    return [{"role": message.role, "content": clean(message.content)} for message in messages]


def prompt_token_bound(messages: Sequence[dict[str, str]]) -> int:
    """How many tokens a prompt is reckoned to have at most, before a tokenizer has seen it.

    Half of its UTF-8 bytes and a little for each message. Tokenizers in use take 3 to 4.5 bytes a token of prose and
    code and hardly less than 2 of digits, hexadecimal and base64, so the real count is lower; it replaces this one as
    soon as the service has reported it.
    """
    size = sum(len(message["content"].encode("utf-8")) for message in messages)
    return (size + 1) // 2 + _TOKENS_PER_MESSAGE * (len(messages) + 1)
