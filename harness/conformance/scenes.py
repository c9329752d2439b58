"""Material for the suites: replies in the plain format of `harness.standins`, turns, and histories of a given size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

from harness.conformance.base import require
from harness.scripted import ScriptedContext, ScriptedModel, ScriptedTerminal
from harness.types import Command, Message, Reply, Turn

T = TypeVar("T")

UNREADABLE = "I would now run echo DANGER > /app/x and then look at it."
ENDLESS = 1_000
"""Calls after which a loop is taken to have no end."""


def reply(*keystrokes: str, complete: bool = False) -> str:
    """The text of a readable reply."""
    return json.dumps({"commands": [{"keystrokes": keys} for keys in keystrokes], "task_complete": complete})


def turn(
    *keystrokes: str,
    complete: bool = False,
    number: int = 1,
    observed: bool = True,
    observation: str = "$ ",
    warnings: Sequence[str] = (),
) -> Turn:
    """A turn as the kernel makes it."""
    commands = tuple(Command(keys) for keys in keystrokes)
    read = Reply(commands, complete, warnings=tuple(warnings), raw=reply(*keystrokes, complete=complete))
    stage = "observed" if observed else "proposed"
    return Turn(number, stage, "What now?", read, observation=observation if observed else "")


def enter(ctx: ScriptedContext, observed: Turn) -> Turn:
    """Put a turn into the state, as the kernel does when it has observed it."""
    ctx.state.number = observed.number
    ctx.state.turns.append(observed)
    return observed


def exchanges(first: str, pairs: int, characters: int) -> list[Message]:
    """A history: the first prompt, and `pairs` replies and observations of about `characters` each."""
    history: list[Message] = []
    for index in range(pairs):
        seen = f"observation {index}: " + "the build printed one more line\n" * (characters // 32)
        history.append(Message("user", first if index == 0 else seen))
        history.append(Message("assistant", reply(f"echo {index} {'x' * (characters // 4)}\n")))
    return history


def turns_asked(model: ScriptedModel) -> int:
    """How many requests asked for the agent's next turn."""
    return sum(request.purpose == "turn" for request in model.requests)


def typed(ctx: ScriptedContext) -> str:
    """All literal text that was typed into the scripted terminal."""
    return ctx.terminal.typed if isinstance(ctx.terminal, ScriptedTerminal) else ""


def odd_turns() -> Iterator[Turn]:
    """Turns of both stages that a careless function trips over: empty, huge, full of warnings, beyond ASCII."""
    for observed in (False, True):
        yield turn(observed=observed)
        yield turn(complete=True, observed=observed, warnings=["odd"])
        yield turn("", "\n", "C-c", observed=observed)
        yield turn(*["echo again\n"] * 200, observed=observed)
        yield turn(
            "printf '\\0\u00fc\u4e16\U0001f600'\n", observed=observed, observation="\u00fc\u4e16\U0001f600\x1b[0m\ufffd"
        )
        yield turn("cat big\n", observed=observed, observation="0123456789abcdef\n" * 60_000)
        yield turn("ls\n", observed=observed, warnings=["w" * 500] * 100)


def remembered(ctx: ScriptedContext) -> tuple[object, ...]:
    """A copy of the state, to be compared with a later one."""
    state = ctx.state
    return (list(state.history), list(state.turns), state.number, state.pending_completion, state.faults_in_a_row)


def checked(value: object, kind: type[T]) -> T:
    """The value, when it has the type that the point promises."""
    require(isinstance(value, kind), f"returned {type(value).__name__}, must return {kind.__name__}")
    assert isinstance(value, kind)
    return value
