"""How a request is refused: a typed answer for the worker, never an end of the session by itself."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """Answered to the worker as `{"error": {"kind", "message", **extra}}`; `kind` is of `harness.wire.ERROR_KINDS`."""

    def __init__(self, kind: str, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.kind, self.extra = kind, extra
