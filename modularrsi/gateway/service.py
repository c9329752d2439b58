"""What the gateway asks of a model service, and how an attempt can fail.

`modularrsi.gateway.client` implements this over HTTP. What an attempt may have cost is decided where it failed, since
nobody later can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One attempt. `parameters` is the request's body without its messages; `headers` come on top of the client's."""

    messages: list[dict[str, str]]
    parameters: Mapping[str, Any]
    headers: Mapping[str, str]
    timeout_sec: float


class ServiceFault(Exception):
    """One attempt failed.

    cause        of `ModelServiceError`: rate_limit, server_error, timeout, auth, bad_request, bad_reply; or
                 context_overflow
    retry        whether another attempt could fare better
    maybe_paid   the service may have generated a reply that never arrived
    retry_after  seconds that the service asks to wait, as it said it
    """

    def __init__(
        self, message: str, cause: str, *, retry: bool, maybe_paid: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.cause, self.retry, self.maybe_paid, self.retry_after = cause, retry, maybe_paid, retry_after


class Service(Protocol):
    async def send(self, request: ServiceRequest) -> str:
        """One attempt; the body of a 200 reply. Raises ServiceFault."""
        ...

    async def models(self, timeout_sec: float) -> list[str]:
        """Names that the service lists. Raises ServiceFault."""
        ...

    async def close(self) -> None: ...
