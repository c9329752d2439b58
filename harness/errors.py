"""Everything that can go wrong inside a rollout, as one tree.

    HarnessError
    ├── LibraryError        a library tree cannot be loaded (names the file and the fix)
    ├── CompositionError    the chosen functions cannot work together
    ├── FunctionError       a function of the composition raised, or returned what its point does not allow
    ├── WireError           a line between engine and worker is not what the protocol allows
    └── EngineRefusal       the engine answered a request with an error
        ├── ModelFault      model.complete failed
        │   ├── ContextOverflow   the request does not fit the model's window
        │   ├── ReplyTruncated    the reply hit the output limit; `.text` holds what came
        │   └── ModelUnavailable  the service failed after the engine's own retries
        └── Stopped         budget or deadline is used up: the rollout must end now

The worker never retries an `EngineRefusal` by itself: what to do next is policy (`recover`, `fit`, `drive`).
"""

from __future__ import annotations


class HarnessError(Exception):
    """Root of all errors raised by `harness`."""


class LibraryError(HarnessError):
    """A library tree or one of its files cannot be used."""


class CompositionError(HarnessError):
    """A composition names unknown functions, or functions that conflict or lack what they need."""


class FunctionError(HarnessError):
    """A function raised or returned the wrong type. The message starts with `module/point/name`."""


class WireError(HarnessError):
    """A message breaks the line protocol (`harness.wire`)."""


class EngineRefusal(HarnessError):
    """The engine answered a request with an error. `kind` is one of `harness.wire.ERROR_KINDS`."""

    kind = "refused"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ModelFault(EngineRefusal):
    """`model.complete` did not produce a usable reply."""


class ContextOverflow(ModelFault):
    """The messages do not fit into the model's context window."""

    kind = "context_overflow"


class ReplyTruncated(ModelFault):
    """The model stopped at its output limit; `text` is the part that arrived."""

    kind = "reply_truncated"

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class ModelUnavailable(ModelFault):
    """The model service failed, after every retry the engine was willing to pay for."""

    kind = "model_unavailable"


class Stopped(EngineRefusal):
    """The engine will serve nothing more: budget, deadline or turn limit is used up."""

    kind = "stopped"
