"""The shape of a history, and of the text in it.

Invariant, at every model request: after leading system messages, user and assistant messages alternate, beginning
with a user message and ending with an assistant message (the prompt follows); no message is blank, and no text holds a
NUL or a lone surrogate. Services refuse what breaks it, each in its own words, so the kernel restores it instead.
"""

from __future__ import annotations

from typing import Any

from harness.types import Message

BLANK = "(empty)"


def clean(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD; surrogate pairs become the character they mean."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def filled(text: str) -> str:
    """Cleaned text, or a placeholder where it is blank: services refuse empty messages."""
    return clean(text) if text.strip() else BLANK


def tidy(history: list[Message], prompt: str) -> tuple[list[Message], str]:
    """(history, prompt) with the invariant restored.

    Neighbours of one role are joined; a user message at the end moves in front of the prompt.
    """
    joined: list[Message] = []
    for message in history:
        if joined and joined[-1].role == message.role:
            joined[-1] = Message(message.role, f"{joined[-1].content}\n\n{filled(message.content)}")
        else:
            joined.append(Message(message.role, filled(message.content)))
    if joined and joined[-1].role == "user":
        prompt = f"{joined.pop().content}\n\n{prompt}"
    return joined, filled(prompt)


def is_history(value: list[Any]) -> bool:
    """Whether everything in it is a message with a text."""
    return all(isinstance(item, Message) and type(item.content) is str for item in value)


def problem(history: list[Message]) -> str:
    """What is wrong with a tidied history that tidying cannot mend; "" when nothing is."""
    roles = [message.role for message in history]
    leading = next((index for index, role in enumerate(roles) if role != "system"), len(roles))
    if set(roles) - {"system", "user", "assistant"}:
        return f"unknown role {(set(roles) - {'system', 'user', 'assistant'}).pop()!r}"
    if "system" in roles[leading:]:
        return "a system message after the first user message"
    if roles[leading:] and roles[leading] != "user":
        return "the first message is not the user's"
    return ""
