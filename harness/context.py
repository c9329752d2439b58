"""What a function is given: the capabilities, the state, and the kernel's phases.

`Context` is what every function sees. Its capabilities are protocols with two implementations: `harness.client`
speaks to the engine, `harness.scripted` answers from a script (tests, conformance suites).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from harness.types import (
    Completion,
    Decision,
    Executed,
    Fault,
    Grammar,
    Key,
    Limits,
    Message,
    Recovery,
    Snapshot,
    State,
    Task,
    Turn,
)


class Model(Protocol):
    def complete(self, messages: Sequence[Message], purpose: str = "turn") -> Completion:
        """Ask the model. Raises ContextOverflow, ReplyTruncated, ModelUnavailable, Stopped."""
        ...


class Terminal(Protocol):
    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        """Type literal text (`str`) and press named keys (`Key`), then wait. True: the session had died and is new.

        Text is literal: newline is Enter, long or multi-line text arrives byte for byte. Raises Stopped.
        """
        ...

    def read(self, scope: Literal["screen", "scrollback", "new"] = "new") -> Snapshot: ...


class Sandbox(Protocol):
    def exec(self, command: str, *, cwd: str = "", timeout: float = 30.0, stdin: str = "") -> Executed:
        """Run `command` with `bash -c` (or `sh -c`) outside the terminal, as the agent's user."""
        ...

    def read_file(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        """The first `max_bytes` bytes. Raises EngineRefusal when it cannot be read."""
        ...

    def write_file(self, path: str, data: bytes, append: bool = False) -> int:
        """Write (or append) bytes, making parent folders; returns the bytes written. Raises EngineRefusal."""
        ...


class Phases(Protocol):
    """The kernel's steps, each a traced call through the points. `drive` is written in terms of these."""

    def grammar(self) -> Grammar:
        """The active grammar, made once per rollout."""
        ...

    def first_prompt(self) -> str:
        """Format, MCP and skills blocks, helper commands, instruction and the first look at the terminal."""
        ...

    def ask(self, prompt: str) -> Turn | Fault:
        """fit → model → parse. The exchange enters the history. A `Turn` of stage "proposed", or a `Fault`."""
        ...

    def recover(self, fault: Fault) -> Recovery: ...

    def use_reply(self, prompt: str, text: str) -> Turn | Fault:
        """Parse `text` as if the model had replied it to `prompt` (a salvaged reply)."""
        ...

    def guard(self, turn: Turn) -> tuple[Turn, str, tuple[str, ...]]:
        """All guards in order → (turn with held commands, joined feedback, reopened requirements)."""
        ...

    def execute(self, turn: Turn) -> Turn:
        """Route every command that is not held; the result has `routed`."""
        ...

    def observe(self, turn: Turn) -> Turn:
        """capture → refine* → limit; the result has stage "observed" and enters `State.turns`."""
        ...

    def decide(self, turn: Turn) -> Decision:
        """check* → decide."""
        ...

    def retained(self) -> str:
        """What all `retain` functions want to survive, joined."""
        ...


class Context(Protocol):
    task: Task
    limits: Limits
    state: State
    model: Model
    terminal: Terminal
    sandbox: Sandbox
    run: Phases

    @property
    def memo(self) -> dict[str, Any]:
        """A dictionary that only the function now running sees; it lives as long as the rollout."""
        ...

    def active(self, point: str) -> tuple[str, ...]:
        """Names of the functions that this composition activates at `module/point`, in order."""
        ...

    def describe(self, point: str, name: str) -> tuple[str, str]:
        """(`describes`, `usage`) of an active function."""
        ...

    def call_command(self, name: str, head: str, body: str) -> str:
        """Run the helper command `name` (traced). Raises KeyError when it is not active."""
        ...

    def log(self, text: str) -> None:
        """A note for the trajectory; at most 2,000 characters of it are kept."""
        ...
