"""Recorded runs of the reference agent (ATIF files) as a script for our loop, and as the events it must reproduce.

An event is one of ("typed", keystrokes, seconds), ("told", what) and ("ended", reason); `what` is "error", "question",
"handover" or "observation". Warnings cannot be told: the recordings keep the parsed reply, not its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import ContextOverflow
from harness.registry import Function
from harness.scripted import ScriptedContext, ScriptedModel, ScriptedTerminal, make_context
from harness.types import Completion, Key, Limits, Message, Task

Event = tuple[Any, ...]
SUMMARY_STEPS = ("summary", "questions", "answers")


def steps(*files: Path) -> list[dict[str, Any]]:
    """The steps of a run whose recording goes on in further files; copies of earlier context are left out."""
    found = [step for file in files for step in json.loads(file.read_text(encoding="utf-8"))["steps"]]
    return [step for step in found if not step.get("is_copied_context")]


def last_message(file: Path) -> str:
    return json.loads(file.read_text(encoding="utf-8"))["steps"][-1]["message"]


def reply_text(step: dict[str, Any]) -> str:
    """The reply of an agent step: recorded as it came, or made anew from its parsed form."""
    message = step["message"]
    if _told(step) == "error" or message.lstrip().startswith("{"):
        return message
    calls = [call for call in step.get("tool_calls", ()) if call["function_name"] == "bash_command"]
    complete = len(calls) < len(step.get("tool_calls", ()))
    analysis, _, plan = message.removeprefix("Analysis: ").partition("\nPlan: ")
    fields = {"analysis": analysis, "plan": plan, "commands": [call["arguments"] for call in calls]}
    return json.dumps({**fields, "task_complete": complete})


def answers(recorded: Sequence[dict[str, Any]], summary: Sequence[str] = ()) -> Iterator[str | Exception]:
    """What the model said, in order. A summary begins with a refused request, as in the recorded runs."""
    for step in recorded:
        if step["source"] == "agent":
            yield reply_text(step)
        elif step["source"] == "system":
            yield ContextOverflow("the window is full")
            yield from summary


def expected(recorded: Sequence[dict[str, Any]], max_turns: int | None) -> list[Event]:
    """The events of the recorded run."""
    events: list[Event] = []
    agent = [step for step in recorded if step["source"] == "agent"]
    for step in recorded:
        if step["source"] == "system":
            events[-1] = ("told", "handover")
            continue
        if step["source"] != "agent":
            continue
        if _told(step) != "error":
            commands = json.loads(reply_text(step))["commands"]
            events += [("typed", command["keystrokes"], min(60.0, float(command["duration"]))) for command in commands]
        events.append(("told", _told(step)))
    claims = [_told(step) != "error" and json.loads(reply_text(step))["task_complete"] for step in agent]
    twice = claims[-2:] == [True, True]
    reason = "complete" if twice else "max_turns" if len(agent) == max_turns else "stopped"
    return [*events[: -1 if reason != "stopped" else None], ("ended", reason)]


def _told(step: dict[str, Any]) -> str:
    results = step.get("observation", {}).get("results", ())
    text = str(results[0].get("content")) if results else ""
    if text.startswith("Previous response had parsing errors"):
        return "error"
    return "question" if "Are you sure you want to mark" in text else "observation"


class _Listening(ScriptedModel):
    """Notes what the agent is told with each request for a turn but the first."""

    def __init__(self, script: Sequence[str | Exception], events: list[Event]) -> None:
        super().__init__(script)
        self.events = events
        self.kinds: list[tuple[str, str]] = []

    def complete(self, messages: Sequence[Message], purpose: str = "turn") -> Completion:
        told = next((kind for mark, kind in self.kinds if mark in messages[-1].content), "observation")
        if purpose == "turn" and self.requests:
            if self.requests[-1].purpose == "answers":
                self.events.pop()  # the refused request told the agent nothing
            self.events.append(("told", told))
        return super().complete(messages, purpose)


class _Typing(ScriptedTerminal):
    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self.events = events

    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        self.events.append(("typed", "".join(key.name if isinstance(key, Key) else key for key in keys), wait))
        return super().send(keys, wait)


def replay(
    functions: Sequence[Function], script: Sequence[str | Exception], limits: Limits, handover: str = ""
) -> tuple[list[Event], ScriptedContext]:
    """Run a composition on the script; returns its events. `handover` is a text that only a hand-over holds."""
    events: list[Event] = []
    model, terminal = _Listening(script, events), _Typing(events)
    ctx = make_context(*functions, model=model, terminal=terminal, task=Task("Write hello.txt."), limits=limits)
    model.kinds = [("ERROR:", "error"), (ctx.run.grammar().confirm, "question")]
    if handover:
        model.kinds.append((handover, "handover"))
    ending = ctx.drive()
    return [*events, ("ended", ending.reason)], ctx
