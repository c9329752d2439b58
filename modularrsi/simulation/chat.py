"""OpenAI's chat completions as bodies: a request read into a `Question`, an `Answer` written as a reply or a stream.

The same request has the same bytes for a reply: ids are digests, and no clock is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args
from urllib.parse import unquote

from harness import tokens
from harness.types import Role
from modularrsi.gateway.messages import ChatMessage, clean
from modularrsi.simulation.names import EMBEDDED, MODELS, role_of
from modularrsi.simulation.question import Answer, Question

_ROLES = {**{role: role for role in get_args(Role)}, "developer": "system"}
_REFUSED = ("tools", "functions", "audio", "modalities")
_PER_MESSAGE = 4
"""Tokens that a message costs beside its text, as OpenAI reckons them."""
_PIECE = 24
"""Characters of a streamed piece."""


class Refusal(Exception):
    """A request that is answered with an error, in OpenAI's shape."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        return {"error": error, "simulated": True}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request, read. `digest` is of its body; `stops` end the reply where one of them would begin; `limit` (tokens
    of the reply) None = not asked for."""

    question: Question
    model: str
    digest: str
    stream: bool
    usage_in_stream: bool
    stops: tuple[str, ...]
    limit: int | None
    prompt_tokens: int


def read(raw: bytes, headers: Mapping[str, str], context_tokens: int) -> ChatRequest:
    """Raises Refusal. Header names are lower-case; places of calls are percent-encoded in them."""
    body = _object(raw)
    model = body.get("model")
    if not isinstance(model, str):
        raise Refusal(400, "model must be a string")
    role = role_of(model)
    if role is None:
        known = ", ".join([EMBEDDED, *MODELS])
        raise Refusal(404, f"The model {model[:100]!r} does not exist; there are {known}", "model_not_found")
    told = unquote(headers.get("x-modularrsi-role", ""))
    if told and told != role:
        raise Refusal(400, f"the header says role {told[:40]!r}, but the model {model} plays {role}")
    messages = _messages(body.get("messages"))
    size = prompt_tokens(messages)
    if size > context_tokens:
        raise Refusal(
            400, f"This model's maximum context length is {context_tokens} tokens. However, your messages resulted in "
            f"{size} tokens. Please reduce the length of the messages.", "context_length_exceeded",
        )  # fmt: skip
    return ChatRequest(
        question=Question(
            role, messages,
            scope=unquote(headers.get("x-modularrsi-scope", "")),
            ordinal=_number(headers.get("x-modularrsi-ordinal", "0")),
            purpose=unquote(headers.get("x-modularrsi-purpose", "")),
            parameters={name: value for name, value in body.items() if name != "messages"},
        ),
        model=model,
        digest=hashlib.sha256(raw).hexdigest(),
        stream=_flag(body, "stream"),
        usage_in_stream=_flag(_table(body, "stream_options"), "include_usage"),
        stops=_stops(body.get("stop")),
        limit=_limit(body),
        prompt_tokens=size,
    )  # fmt: skip


def prompt_tokens(messages: Sequence[ChatMessage]) -> int:
    """An estimate; the simulator has no tokenizer."""
    return sum(tokens.count_text(message.content) + _PER_MESSAGE for message in messages)


def ended(answer: Answer, request: ChatRequest) -> Answer:
    """The answer up to the first stop that was asked for, and within the asked output limit."""
    stop = min((at for text in request.stops if (at := answer.text.find(text)) >= 0), default=None)
    if stop is not None:
        answer = replace(answer, text=answer.text[:stop], finish="stop")
    limit = request.limit
    if limit is None or tokens.count_text(answer.text) <= limit:
        return answer
    low, high = 0, len(answer.text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens.count_text(answer.text[:middle]) <= limit else (low, middle - 1)
    return replace(answer, text=answer.text[:low], finish="length")


def usage(request: ChatRequest, answer: Answer) -> dict[str, int]:
    said = tokens.count_text(answer.text) + tokens.count_text(answer.reasoning)
    return {
        "prompt_tokens": request.prompt_tokens, "completion_tokens": said, "total_tokens": request.prompt_tokens + said,
    }  # fmt: skip


def completion(request: ChatRequest, answer: Answer, version: str) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    return _frame(request, "chat.completion", version) | {"choices": [choice], "usage": usage(request, answer)}


def chunks(request: ChatRequest, answer: Answer, version: str) -> Iterator[dict[str, Any]]:
    """The parts of a streamed reply, without `[DONE]`."""
    frame = _frame(request, "chat.completion.chunk", version)
    extra: dict[str, Any] = {"usage": None} if request.usage_in_stream else {}

    def part(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return frame | {"choices": [choice]} | extra

    yield part({"role": "assistant", "content": ""})
    if answer.reasoning:
        yield part({"reasoning_content": answer.reasoning})
    for start in range(0, len(answer.text), _PIECE):
        yield part({"content": answer.text[start : start + _PIECE]})
    yield part({}, answer.finish)
    if request.usage_in_stream:
        yield frame | {"choices": [], "usage": usage(request, answer)}


def models() -> dict[str, Any]:
    return {"object": "list", "data": [model(name) for name in (EMBEDDED, *MODELS)], "simulated": True}


def model(name: str) -> dict[str, Any]:
    """Raises Refusal for one that is not served."""
    if role_of(name) is None:
        raise Refusal(404, f"The model {name[:100]!r} does not exist", "model_not_found")
    return {"id": name, "object": "model", "created": 0, "owned_by": "modularrsi", "simulated": True}


def _frame(request: ChatRequest, kind: str, version: str) -> dict[str, Any]:
    question = request.question
    place = "\0".join((question.scope, str(question.ordinal), question.purpose, request.digest))
    name = hashlib.sha256(place.encode()).hexdigest()[:24]
    return {
        "id": f"chatcmpl-simulated-{name}", "object": kind, "created": 0, "model": request.model,
        "system_fingerprint": f"simulated-{version}", "simulated": True,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------ reading a body


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {str(error)[:200]}") from error
    if not isinstance(body, dict):
        raise Refusal(400, "the body must be a JSON object")
    for name in _REFUSED:
        if cast(dict[str, Any], body).get(name):
            raise Refusal(400, f"{name}: the simulator speaks plain text and takes no {name}; leave it out")
    if cast(dict[str, Any], body).get("n", 1) not in (1, None):
        raise Refusal(400, "n must be 1: the simulator gives one choice")
    return cast(dict[str, Any], body)


def _messages(value: Any) -> tuple[ChatMessage, ...]:
    if not isinstance(value, list) or not value:
        raise Refusal(400, "messages must be a list with at least one message")
    return tuple(_message(number, item) for number, item in enumerate(cast(list[Any], value)))


def _message(number: int, item: Any) -> ChatMessage:
    fields = cast(dict[str, Any], item) if isinstance(item, dict) else {}
    role = fields.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise Refusal(400, f"messages[{number}].role must be one of {', '.join(_ROLES)}")
    return ChatMessage(cast(Role, _ROLES[role]), clean(_content(number, fields.get("content"))))


def _content(number: int, value: Any) -> str:
    """A text, or a list of text parts."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    parts = cast(list[Any], value) if isinstance(value, list) else [None]
    texts = [cast(dict[str, Any], part).get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(400, f"messages[{number}].content must be a text or a list of text parts")
    return "".join(cast(list[str], texts))


def _limit(body: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Refusal(400, f"{name} must be a whole number, 1 or more")
        return value
    return None


def _stops(value: Any) -> tuple[str, ...]:
    """A text or up to four, as OpenAI takes them."""
    texts = cast(list[Any], [] if value is None else value if isinstance(value, list) else [value])
    if len(texts) > 4 or not all(isinstance(text, str) and text for text in texts):
        raise Refusal(400, "stop must be a text, or a list of up to four texts, none of them empty")
    return tuple(texts)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(400, f"{name} must be true or false")
    return value is True


def _table(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise Refusal(400, f"{name} must be an object")
    return cast(dict[str, Any], value or {})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
