"""The points: where functions plug in, how many, and with which signature.

This table is the contract between kernel, library, gates and composer. A module gains a point only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from harness.record import record
from harness.types import (
    Advice,
    Command,
    CommandCall,
    Decision,
    Ending,
    Fault,
    Grammar,
    Guidance,
    Pending,
    Recovery,
    Routed,
    Snapshot,
    Turn,
)

if TYPE_CHECKING:
    from harness.context import Context


class Drive(Protocol):
    def __call__(self, ctx: Context) -> Ending: ...


class Guard(Protocol):
    def __call__(self, turn: Turn, ctx: Context) -> Guidance: ...


class Recover(Protocol):
    def __call__(self, fault: Fault, ctx: Context) -> Recovery: ...


class Capture(Protocol):
    def __call__(self, ctx: Context) -> Snapshot: ...


class Refine(Protocol):
    def __call__(self, text: str, ctx: Context) -> str: ...


class Limit(Protocol):
    def __call__(self, text: str, ctx: Context) -> str: ...


class GrammarPoint(Protocol):
    def __call__(self, ctx: Context) -> Grammar: ...


class CommandPoint(Protocol):
    def __call__(self, call: CommandCall, ctx: Context) -> str: ...


class Route(Protocol):
    def __call__(self, command: Command, ctx: Context) -> Routed: ...


class Fit(Protocol):
    def __call__(self, pending: Pending, ctx: Context) -> str: ...


class Retain(Protocol):
    def __call__(self, ctx: Context) -> str: ...


class Check(Protocol):
    def __call__(self, turn: Turn, ctx: Context) -> Advice: ...


class Decide(Protocol):
    def __call__(self, turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision: ...


@record
class Point:
    """`one`: exactly one function is active; `many`: an ordered subset, possibly empty."""

    module: str
    name: str
    arity: Literal["one", "many"]
    parameters: tuple[str, ...]
    returns: str
    purpose: str
    protocol: type

    @property
    def key(self) -> str:
        return f"{self.module}/{self.name}"


_TABLE: tuple[Point, ...] = (
    Point("agent_loop", "drive", "one", ("ctx",), "Ending",
          "run turns until done: the coordinator, and the only one that stops the run", Drive),
    Point("agent_loop", "guard", "many", ("turn", "ctx"), "Guidance",
          "look at a turn, before its commands run and again before the model is asked: feedback, hold, reopen", Guard),
    Point("agent_loop", "recover", "one", ("fault", "ctx"), "Recovery",
          "what to say or do after an unreadable or truncated reply or a model error", Recover),
    Point("observation", "capture", "one", ("ctx",), "Snapshot",
          "read from the terminal what the agent should see", Capture),
    Point("observation", "refine", "many", ("text", "ctx"), "str", "improve the text: noise out, status in", Refine),
    Point("observation", "limit", "one", ("text", "ctx"), "str",
          "at most Limits.observation_bytes bytes, saying what was left out and where the rest is", Limit),
    Point("tools", "grammar", "one", ("ctx",), "Grammar", "teach the reply format and read replies", GrammarPoint),
    Point("tools", "command", "many", ("call", "ctx"), "str", "one extra command for the agent", CommandPoint),
    Point("tools", "route", "one", ("command", "ctx"), "Routed",
          "decide for a command: helper or keystrokes, and run it", Route),
    Point("context", "fit", "one", ("pending", "ctx"), "str",
          "keep the history inside the window; returns the prompt to send", Fit),
    Point("context", "retain", "many", ("ctx",), "str", "text that must survive any compression", Retain),
    Point("completion", "check", "many", ("turn", "ctx"), "Advice", "advise stop or go on, with a reason", Check),
    Point("completion", "decide", "one", ("turn", "advice", "ctx"), "Decision",
          "fold the advice into one recommendation", Decide),
)

POINTS: dict[str, Point] = {point.key: point for point in _TABLE}
MODULES: tuple[str, ...] = tuple(dict.fromkeys(point.module for point in _TABLE))
