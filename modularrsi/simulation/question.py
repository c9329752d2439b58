"""What a policy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from modularrsi.gateway.messages import ChatMessage
from modularrsi.gateway.settings import ModelRole


@dataclass(frozen=True, slots=True)
class Question:
    """One request, read.

    scope, ordinal, purpose   the place of the call in its run, from the gateway's headers; "", 0 and "" from a caller
                              that sends none
    parameters                the rest of the request's body
    """

    role: ModelRole
    messages: tuple[ChatMessage, ...]
    scope: str = ""
    ordinal: int = 0
    purpose: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def last(self) -> str:
        """The text of the last message; "" when there is none."""
        return self.messages[-1].content if self.messages else ""

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n\n".join(message.content for message in self.messages)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    reasoning: str = ""
    finish: Literal["stop", "length", "content_filter"] = "stop"


class Policy(Protocol):
    """A pure function of its question (and of the seed that it was made with). Called in threads, many at a time."""

    def __call__(self, question: Question) -> Answer: ...


class CannotAnswer(Exception):
    """The question is none that the simulator can answer; the server says so with status 400 and this message."""
