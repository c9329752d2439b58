"""From the lines of a part file to one ATIF 1.8 trajectory.

How a conversation becomes steps (the format is Harbor's; its rules for which field may stand where are kept):

* the first prompt is a user step; each reply is an agent step whose message is the raw reply;
* what was typed and called after a reply are its tool calls, and what the model was shown next is its observation (the
  last reading of the terminal where nothing was shown any more: then `extra.observation` says so);
* calls of the model for other purposes (summaries and the like) are subagent trajectories that a system step refers to;
* a history that was rewritten, a failed call, a broken protocol are system steps;
* `extra` holds the rest; in it, `trace` and `notes` are the worker's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from modularrsi.recorder.bounds import SUMMARY_CHARS, cut
from modularrsi.recorder.part import Line
from modularrsi.recorder.side import SideCall
from modularrsi.recorder.steps import AgentStep, plain_step
from modularrsi.recorder.totals import Totals

SCHEMA = "ATIF-v1.8"
_TURN = "turn"
_MAX_EXTRA = 200
_MAX_ADDED = 20


def assemble(lines: Iterable[Line]) -> dict[str, Any]:
    """A part file without an `end` line (a killed engine's) gives what it holds, and says that it is incomplete."""
    assembly = Assembly()
    for line in lines:
        assembly.add(line)
    return assembly.trajectory()


class Assembly:
    """Takes the lines in order; knows the open agent step and the side calls since the last step."""

    def __init__(self) -> None:
        self._header: Line = {"session_id": "unknown", "agent": {"name": "unknown", "version": "unknown"}}
        self._steps: list[dict[str, Any]] = []
        self._open: AgentStep | None = None
        self._side: list[SideCall] = []
        self._subagents: list[dict[str, Any]] = []
        self._loose: dict[str, Any] = {}
        self._totals = Totals()
        self._turns = 0
        self._purpose = _TURN
        self._started = False
        self._end: Line | None = None
        self._handlers: dict[str, Callable[[Line], None]] = {
            "header": self._on_header, "request": self._on_request, "reply": self._on_reply, "error": self._on_error,
            "sent": self._on_tool, "call": self._on_tool, "read": self._on_read, "trace": self._on_trace,
            "note": self._on_note, "violation": self._on_violation, "end": self._on_end,
        }

    def add(self, line: Line) -> None:
        handler = self._handlers.get(line["kind"])
        if handler is not None:
            handler(line)

    def trajectory(self) -> dict[str, Any]:
        self._close(None)
        self._flush_side(None, "")
        if not self._steps:
            self._append("system", "The worker asked the model for nothing.", "")
        if self._loose:
            self._steps[-1].setdefault("extra", {})["after"] = self._loose
        for number, step in enumerate(self._steps, 1):
            step["step_id"] = number
        result: dict[str, Any] = {
            "schema_version": SCHEMA,
            "session_id": self._header["session_id"],
            "trajectory_id": self._header["session_id"],
            "agent": self._header["agent"],
            "steps": self._steps,
            "final_metrics": self._totals.final_metrics(len(self._steps)),
            "extra": self._extra(),
        }
        if self._subagents:
            result["subagent_trajectories"] = self._subagents
        return result

    def _extra(self) -> dict[str, Any]:
        ending = self._end["ending"] if self._end else None
        return {**self._header.get("extra", {}), "ending": ending, "complete": self._end is not None,
                "model_calls": self._totals.calls}

    def _on_header(self, line: Line) -> None:
        agent = {name: value for name, value in line["agent"].items() if value is not None}
        self._header = {**line, "agent": agent}

    def _on_request(self, line: Line) -> None:
        self._purpose = line["purpose"]
        if self._purpose != _TURN:
            name = f"{self._header['session_id']}/{self._purpose}-{len(self._subagents) + len(self._side) + 1}"
            self._side.append(SideCall(name, line))
        elif not self._started:
            self._first_prompt(line)
        elif _is_append(line):
            self._shown(line)
        else:
            self._close(None)
            self._flush_side(line, line["at"])

    def _first_prompt(self, line: Line) -> None:
        self._started = True
        self._flush_side(None, line["at"])
        for message in line["messages"]:
            source = "user" if message["role"] == "user" else "system"
            self._append(source, message["content"], line["at"])

    def _shown(self, line: Line) -> None:
        """The conversation went on: what is new is what the model was shown after its last reply."""
        shown = "\n\n".join(message["content"] for message in line["messages"] if message["role"] != "assistant")
        if self._open is None:
            self._flush_side(None, line["at"])
            if shown:
                self._append("user", shown, line["at"])
            return
        if any(message["role"] == "assistant" for message in line["messages"]):
            self._open.extra["kept_differently"] = True
        self._close(shown)
        self._flush_side(None, line["at"])

    def _on_reply(self, line: Line) -> None:
        self._totals.add(line["metrics"])
        if self._purpose != _TURN and self._side:
            self._side[-1].reply(line)
            return
        self._close(None)
        self._open = AgentStep(self._turns, line, self._header["agent"].get("model_name"))
        self._open.extra.update(self._take_loose())
        self._turns += 1

    def _on_error(self, line: Line) -> None:
        if self._purpose != _TURN and self._side:
            self._side[-1].error(line)
            return
        self._close(None)
        self._append("system", f"The model did not answer ({line['error']}): {line['message']}", line["at"])

    def _on_tool(self, line: Line) -> None:
        if self._open is not None:
            self._open.tool(line)
        else:
            fields = {name: value for name, value in line.items() if name not in ("kind", "at")}
            self._note_extra("calls", fields)

    def _on_read(self, line: Line) -> None:
        if self._open is not None:
            self._open.read(line)

    def _on_trace(self, line: Line) -> None:
        for call in line["calls"]:
            self._note_extra("trace", call)

    def _on_note(self, line: Line) -> None:
        self._note_extra("notes", line["text"])

    def _on_violation(self, line: Line) -> None:
        self._close(None)
        self._append("system", f"The worker broke the protocol and was stopped: {line['message']}", line["at"])

    def _on_end(self, line: Line) -> None:
        self._end = line

    def _note_extra(self, name: str, item: Any) -> None:
        extra = self._open.extra if self._open is not None else self._loose
        items = extra.setdefault(name, [])
        if len(items) < _MAX_EXTRA:
            items.append(item)
        else:
            extra[f"{name}_left_out"] = extra.get(f"{name}_left_out", 0) + 1

    def _take_loose(self) -> dict[str, Any]:
        loose, self._loose = self._loose, {}
        return {"before": loose} if loose else {}

    def _close(self, shown: str | None) -> None:
        if self._open is not None:
            self._steps.append(self._open.finish(shown))
            self._open = None

    def _flush_side(self, rewrite: Line | None, at: str) -> None:
        """One system step for the side calls since the last one, and for a rewritten history; then its new prompt."""
        if not self._side and rewrite is None:
            return
        calls, self._side = self._side, []
        self._subagents += [call.trajectory(self._header) for call in calls]
        texts = [_rewritten(rewrite)] if rewrite else []
        texts += [f"The model was also asked for: {', '.join(call.purpose for call in calls)}."] if calls else []
        step = self._append("system", " ".join(texts), at or calls[-1].at)
        if calls:
            step["observation"] = {"results": [{"subagent_trajectory_ref": [call.reference() for call in calls]}]}
        if rewrite:
            added = rewrite["messages"]
            shown = [{**message, "content": cut(message["content"], SUMMARY_CHARS)}
                     for message in added[:-1][:_MAX_ADDED]]
            step.setdefault("extra", {}).update(kept=rewrite["kept"], before=rewrite["before"], added=shown)
            if added:
                source = "user" if added[-1]["role"] == "user" else "system"
                self._append(source, added[-1]["content"], rewrite["at"])

    def _append(self, source: str, message: str, at: str) -> dict[str, Any]:
        step = plain_step(source, message, at)
        if extra := self._take_loose():
            step["extra"] = extra
        self._steps.append(step)
        return step


def _is_append(line: Line) -> bool:
    """Everything was kept, or all but the wording of the last reply."""
    if line["kept"] == line["before"]:
        return True
    return line["kept"] == line["before"] - 1 and [m["role"] for m in line["messages"][:1]] == ["assistant"]


def _rewritten(line: Line) -> str:
    gone, added = line["before"] - line["kept"], len(line["messages"])
    return f"The harness rewrote its history: {line['kept']} messages kept, {gone} dropped, {added} new."
