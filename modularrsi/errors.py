"""The engine's error vocabulary, and who owns a failure.

    ModularRSIError
    ├── UserError          the user's own mistake: one clear sentence, exit code 2, never a traceback
    ├── StoreError         the run store cannot be used or does not verify
    ├── BudgetExhausted    a cap would be overrun by the next call
    ├── ModelServiceError  the model service failed after retries
    └── SandboxError       a sandbox could not be built, started, reached or stopped

A failed rollout is data, not a crash: `Failure` says who owns it. Owners other than "agent" make the reward None
(unscored); a failure the agent owns is scored by the verifier as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Owner = Literal["agent", "verifier", "sandbox", "model_service", "engine"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a rollout went wrong. `cause` is a short stable word (`reward_missing`, `verifier_timeout`, `build_failed`,
    `worker_crashed`, `protocol_violation`, `deadline`, `budget` …), `message` one sentence for people."""

    owner: Owner
    cause: str
    message: str


class ModularRSIError(Exception):
    """Root of the engine's errors."""


class UserError(ModularRSIError):
    """Something the user gave is wrong. The message names the file, the field and the fix."""


class StoreError(ModularRSIError):
    """The run store is locked, damaged or inconsistent."""


class BudgetExhausted(ModularRSIError):
    """The next call could overrun a cap in tokens, money, calls or time."""


class ModelServiceError(ModularRSIError):
    """The model service failed after every retry. `cause`: rate_limit, server_error, timeout, auth, bad_request,
    bad_reply."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


class SandboxError(ModularRSIError):
    """A sandbox failed. `cause`: unsupported, build_failed, start_failed, lost, shell_lost (the terminal's shell ends
    again and again, as an agent can make it), upload_failed, download_failed, read_failed, write_failed,
    stop_failed."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause
