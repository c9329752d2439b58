"""The plainest function for each point that must have one, so that any single function can be tried on its own.

They are no library: `harness.scripted` puts them around the function under test. They keep a rollout going and no more;
most of them would not pass their point's conformance suite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from harness.context import Context
from harness.registry import Function, function, tagged
from harness.types import (
    Advice,
    Command,
    Decision,
    Ending,
    Fault,
    Grammar,
    Pending,
    Recovery,
    Reply,
    Routed,
    Snapshot,
    Turn,
)


@function(module="agent_loop", point="drive", describes="ask, execute, observe until told to stop")
def drive(ctx: Context) -> Ending:
    prompt = ctx.run.first_prompt()
    while ctx.state.number < ctx.limits.max_turns:
        turn = ctx.run.ask(prompt)
        if isinstance(turn, Fault):
            recovery = ctx.run.recover(turn)
            if recovery.stop:
                return Ending("faults", recovery.stop)
            prompt = recovery.prompt or turn.prompt
            continue
        turn = ctx.run.observe(ctx.run.execute(ctx.run.guard(turn)[0]))
        decision = ctx.run.decide(turn)
        if decision.stop:
            return Ending("complete", decision.reason)
        prompt = turn.observation
    return Ending("max_turns")


@function(module="agent_loop", point="recover", describes="say what was wrong; stop at the third fault in a row")
def recover(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(stop=fault.message) if fault.streak >= 3 else Recovery(prompt=f"Try again: {fault.message}")


@function(module="observation", point="capture", describes="what is new")
def capture(ctx: Context) -> Snapshot:
    return ctx.terminal.read("new")


@function(module="observation", point="limit", describes="the first bytes, and how many are missing")
def limit(text: str, ctx: Context) -> str:
    data, most = text.encode("utf-8", "replace"), ctx.limits.observation_bytes
    if len(data) <= most:
        return text
    kept = data[: max(0, most - 40)].decode("utf-8", "ignore")
    return f"{kept}\n[{len(data) - len(kept.encode())} bytes left out]"[:most]


@function(module="tools", point="grammar", describes='{"commands": [{"keystrokes", "duration"}], "task_complete"}')
def grammar(ctx: Context) -> Grammar:
    return Grammar("plain", 'Reply with {"commands": [{"keystrokes": "ls\\n"}]}.', parse, '{"task_complete": true}')


def parse(text: str) -> Reply:
    """Strict JSON; everything else is an error."""
    try:
        found: dict[str, Any] = json.loads(text)
        commands = tuple(_command(entry) for entry in found.get("commands", ()))
        return Reply(commands, bool(found.get("task_complete")), raw=text)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        return Reply(error=f"not the plain format: {error}", raw=text)


def _command(entry: object) -> Command:
    fields = cast("dict[str, Any]", entry)
    return Command(str(fields["keystrokes"]), float(fields.get("duration", 1.0)))


@function(module="tools", point="route", describes="type it", dispatches_commands=True)
def route(command: Command, ctx: Context) -> Routed:
    name, _, head = command.keystrokes.split("\n", 1)[0].partition(" ")
    if name in ctx.active("tools/command"):
        body = command.keystrokes.partition("\n")[2]
        return Routed(command, helper=name, output=ctx.call_command(name, head, body))
    ctx.terminal.send([command.keystrokes], command.duration)
    return Routed(command)


@function(module="context", point="fit", describes="send it all")
def fit(pending: Pending, ctx: Context) -> str:
    return pending.prompt


@function(module="completion", point="decide", describes="the agent's word, unless a check objects")
def decide(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(turn.reply.complete and all(item.stop is not False for item in advice), "declared complete")


_STANDINS: tuple[Callable[..., Any], ...] = (drive, recover, capture, limit, grammar, route, fit, decide)
STANDINS: dict[str, tuple[Function, ...]] = {entry.point: (entry,) for entry in map(tagged, _STANDINS)}
