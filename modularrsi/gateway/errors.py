"""What a call of a model can end in, other than a reply.

    ModularRSIError
    ├── ContextOverflowError     the messages do not fit into the model's window; nothing was generated
    ├── ReplyTruncatedError      the model stopped at its output limit; the part that came, and what it cost
    ├── ReplayMiss               replay only: the recording does not hold this call
    ├── ModelServiceError        (modularrsi.errors) the service failed after every retry
    │   └── ContentFilteredError    the service withheld the reply
    └── BudgetExhausted          (modularrsi.errors) a cap would be overrun
"""

from __future__ import annotations

from modularrsi.errors import ModelServiceError, ModularRSIError
from modularrsi.gateway.usage import TokenUsage


class ContextOverflowError(ModularRSIError):
    """The service refused the messages as too long. Not retried: the same messages will not fit later."""


class ReplyTruncatedError(ModularRSIError):
    """The reply ended at the output limit. `text` is what arrived; its tokens are accounted like any others."""

    def __init__(self, message: str, text: str, usage: TokenUsage, cost_usd: float | None, model: str) -> None:
        super().__init__(message)
        self.text, self.usage, self.cost_usd, self.model = text, usage, cost_usd, model


class ContentFilteredError(ModelServiceError):
    """The service's content filter withheld the reply, or the rest of it. Not retried."""

    def __init__(self, message: str, text: str, usage: TokenUsage, cost_usd: float | None, model: str) -> None:
        super().__init__(message, "bad_reply")
        self.text, self.usage, self.cost_usd, self.model = text, usage, cost_usd, model


class ReplayMiss(ModularRSIError):
    """A call that the recording does not hold, or holds with other messages or parameters."""
