"""The one file that imports `openai`. Its own retries are off; time-outs are explicit; nothing is streamed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, OpenAIError, Timeout

from modularrsi.gateway.classify import fault_of_status
from modularrsi.gateway.service import ServiceFault, ServiceRequest

CONNECT_SEC = 30.0

# Asks the client for the response as it came, instead of one parsed into its types.
RAW_RESPONSE_HEADER = "X-Stainless-Raw-Response"

# Raised before a byte of the request has gone out (by whichever HTTP library the client is built on).
_NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"})


class OpenAIService:
    """A service that speaks OpenAI's chat completions. One object for one address and key; close it after use."""

    def __init__(self, url: str, key: str) -> None:
        self._client = AsyncOpenAI(api_key=key, base_url=url, max_retries=0)

    async def send(self, request: ServiceRequest) -> str:
        timeout = Timeout(request.timeout_sec, connect=min(CONNECT_SEC, request.timeout_sec))
        body = {**request.parameters, "messages": request.messages, "stream": False}
        headers = {**request.headers, RAW_RESPONSE_HEADER: "true"}
        # Not `chat.completions.create`: it walks every message through its types, which takes longer than the whole
        # rest of a turn once the history is long, and the body here is plain JSON as it is.
        post: Any = self._client.post
        try:
            # The client's time-out is one of silence; a service that trickles is bounded by the outer one.
            async with asyncio.timeout(request.timeout_sec):
                reply = await post(
                    "/chat/completions", cast_to=object, body=body, options={"headers": headers, "timeout": timeout}
                )
                return reply.http_response.text
        except TimeoutError as error:
            raise _timed_out(request.timeout_sec) from error
        except OpenAIError as error:
            raise _fault(error, request.timeout_sec) from error

    async def models(self, timeout_sec: float) -> list[str]:
        try:
            async with asyncio.timeout(timeout_sec):
                page = await self._client.models.list(timeout=timeout_sec)
        except TimeoutError as error:
            raise _timed_out(timeout_sec) from error
        except OpenAIError as error:
            raise _fault(error, timeout_sec) from error
        return [model.id for model in page.data or []]

    async def close(self) -> None:
        await self._client.close()


def _fault(error: OpenAIError, timeout_sec: float) -> ServiceFault:
    if isinstance(error, APIStatusError):
        headers = dict(error.response.headers.items())
        return fault_of_status(error.status_code, _message(error), f"{error.code} {error.type}", headers, time.time())
    sent = type(error.__cause__).__name__ not in _NEVER_SENT
    if isinstance(error, APITimeoutError):
        return _timed_out(timeout_sec, sent)
    if isinstance(error, APIConnectionError):
        reason = f"connection lost: {error.__cause__ or error}"
        return ServiceFault(reason, "server_error", retry=True, maybe_paid=sent)
    return ServiceFault(f"the client refused: {error}", "bad_request", retry=False)


def _timed_out(timeout_sec: float, sent: bool = True) -> ServiceFault:
    return ServiceFault(f"no reply within {timeout_sec:g} s", "timeout", retry=True, maybe_paid=sent)


def _message(error: APIStatusError) -> str:
    """What the service said. The client's own wording repeats the whole body."""
    body = error.body
    if isinstance(body, dict) and isinstance(said := body.get("message"), str):
        return said[:1000]
    return error.message[:1000]
