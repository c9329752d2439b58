"""What a terminal is, for the engine: type, wait, read. One per rollout.

Implementations: `modularrsi.terminal.tmux` (server on the host, the sandbox in its pane). Later: a tmux inside the
sandbox driven by `Sandbox.exec`, for environments that offer nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from harness.types import Key, Snapshot


class Terminal(Protocol):
    async def start(self) -> None: ...

    async def send(self, keys: Sequence[str | Key], wait: float) -> bool:
        """Literal text and named keys, in order; then wait. True: the session had died and was started anew first.

        Raises `UserError` for an unknown key name, `SandboxError` when the session cannot be started again.
        """
        ...

    async def read(self, scope: Literal["screen", "scrollback", "new"]) -> Snapshot: ...

    async def stop(self) -> None: ...
