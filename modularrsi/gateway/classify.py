"""From what a service answered to what it means: a reply, or a fault with its cause."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, cast

from modularrsi.gateway.messages import clean
from modularrsi.gateway.service import ServiceFault
from modularrsi.gateway.usage import TokenUsage, read_usage

# How services say that a prompt is too long; there is no common code for it. Lower case.
_OVERFLOW = (
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "model's context length",
    "context window",
    "context size",
    "exceed_context_size",
    "exceeds the context",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "`inputs` tokens + `max_new_tokens`",
    "reduce the length of the messages",
    "input token count",
)
_RETRIED = frozenset({408, 409, 425, 429})
_LIMIT_WORDS = frozenset({"length", "max_tokens", "max_output_tokens"})
_QUOTA = ("insufficient_quota", "billing_hard_limit", "credit balance is too low", "exceeded your current quota")


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """One choice of a reply. `finish`: "stop", "length", "content_filter" or the service's own word."""

    text: str
    reasoning: str
    finish: str
    usage: TokenUsage
    model: str


def fault_of_status(
    status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None, now: float = 0.0
) -> ServiceFault:
    """The fault behind a status of 400 or more. `now` (seconds since 1970) is for a Retry-After that is a date."""
    said = f"{code} {message}".lower()
    text = f"HTTP {status}: {message}"
    if status in (400, 413, 422) and any(words in said for words in _OVERFLOW):
        return ServiceFault(text, "context_overflow", retry=False)
    if status in (401, 403):
        return ServiceFault(text, "auth", retry=False)
    if status == 402 or any(words in said for words in _QUOTA):
        return ServiceFault(text, "rate_limit", retry=False)
    if status not in _RETRIED and status < 500:
        return ServiceFault(text, "bad_request", retry=False)
    cause = {408: "timeout", 429: "rate_limit"}.get(status, "server_error")
    return ServiceFault(text, cause, retry=True, retry_after=retry_after(headers or {}, now))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from `Retry-After-Ms` or `Retry-After` (RFC 9110: seconds or a date); None = it does not say.

    A date is measured from the reply's own `Date`, so that a wrong clock here does not matter.
    """
    found = {name.lower(): value for name, value in headers.items()}
    milliseconds = _seconds(found.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = found.get("retry-after", "")
    seconds, date = _seconds(text), _date(text)
    if seconds is None and date is not None:
        here = _date(found.get("date", ""))
        seconds = max(0.0, date - (now if here is None else here))
    return seconds


def read_reply(body: str) -> ParsedReply:
    """Read a 200 reply. Raises ServiceFault for a body that is no JSON, has no choice, or is an error in disguise."""
    reply = _object(_json(body))
    error = reply.get("error")
    choices = reply.get("choices")
    if error and not choices:
        raise _fault_in_body(error)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ServiceFault("the reply has no choice", "bad_reply", retry=True, maybe_paid=True)
    choice = cast(Mapping[str, Any], choices[0])
    message = _object(choice.get("message"))
    finish = choice.get("finish_reason")
    return ParsedReply(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish="length" if finish in _LIMIT_WORDS else str(finish or "stop"),
        usage=read_usage(reply.get("usage")),
        model=_text(reply.get("model")),
    )


def _fault_in_body(error: object) -> ServiceFault:
    """Some relays answer 200 and put the status of the service behind them into the body."""
    fields = _object(error)
    message = _text(fields.get("message")) or str(error)[:500]
    code = fields.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return fault_of_status(code, message)
    if any(words in f"{code} {message}".lower() for words in _OVERFLOW):
        return ServiceFault(message, "context_overflow", retry=False)
    return ServiceFault(message, "server_error", retry=True, maybe_paid=True)


def _json(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        start = body[:80]
        raise ServiceFault(f"the reply is no JSON: {start!r}", "bad_reply", retry=True, maybe_paid=True) from None


def _object(raw: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}


def _text(raw: object) -> str:
    """A text, or the texts of a list of content parts."""
    if isinstance(raw, list):
        return "".join(_text(_object(part).get("text")) for part in cast(list[object], raw))
    return clean(raw) if isinstance(raw, str) else ""


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
