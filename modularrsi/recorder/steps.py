"""Steps of an ATIF trajectory, built while their events arrive."""

from __future__ import annotations

from typing import Any

from modularrsi.recorder.part import Line

MAX_TOOL_CALLS = 500


def plain_step(source: str, message: str, at: str) -> dict[str, Any]:
    """A user's or system's step; its `step_id` comes with its place in the trajectory."""
    step: dict[str, Any] = {"step_id": 0, "source": source, "message": message}
    if at:
        step["timestamp"] = at
    return step


def reply_step(line: Line, model_name: str | None) -> dict[str, Any]:
    """An agent's step of one reply."""
    step = plain_step("agent", line["text"], line["at"])
    if line["model"] or model_name:
        step["model_name"] = line["model"] or model_name
    if line["reasoning"]:
        step["reasoning_content"] = line["reasoning"]
    metrics = {name: value for name, value in line["metrics"].items() if value is not None}
    if line["details"]:
        metrics["extra"] = line["details"]
    if metrics:
        step["metrics"] = metrics
    if line["finish_reason"] not in (None, "stop"):
        step["extra"] = {"finish_reason": line["finish_reason"]}
    return step


class AgentStep:
    """The step of one turn, open until the model is shown something else."""

    def __init__(self, turn: int, line: Line, model_name: str | None) -> None:
        self._turn = turn
        self._step = reply_step(line, model_name)
        self._calls: list[dict[str, Any]] = []
        self._results: list[dict[str, Any]] = []
        self._reading: str | None = None
        self.extra: dict[str, Any] = self._step.pop("extra", {})

    def tool(self, line: Line) -> None:
        """Something was typed (`sent`) or served by the sandbox (`call`)."""
        if len(self._calls) >= MAX_TOOL_CALLS:
            self.extra["tool_calls_left_out"] = self.extra.get("tool_calls_left_out", 0) + 1
            return
        name = f"call_{self._turn}_{len(self._calls) + 1}"
        if line["kind"] == "sent":
            arguments = {"keystrokes": line["keystrokes"], "duration": line["wait"]}
            call: dict[str, Any] = {"tool_call_id": name, "function_name": "bash_command", "arguments": arguments}
            if line["named"]:
                call["extra"] = {"keys": line["named"]}
        else:
            call = {"tool_call_id": name, "function_name": f"sandbox_{line['method']}", "arguments": line["params"]}
            self._results.append({"source_call_id": name, "content": _result_text(line["result"])})
        self._calls.append(call)

    def read(self, line: Line) -> None:
        self._reading = line["text"]
        for flag, value in line["flags"].items():
            self.extra.setdefault("terminal", {})[flag] = value

    def finish(self, shown: str | None) -> dict[str, Any]:
        """`shown`: what the model saw next; None = nothing, and the last reading stands in for it."""
        if self._calls:
            self._step["tool_calls"] = self._calls
        text = shown
        if shown is None and self._reading is not None:
            text = self._reading
            self.extra["observation"] = "the last reading of the terminal; the model was not shown it"
        results = [*([_observation(text, self._calls)] if text is not None else []), *self._results]
        if results:
            self._step["observation"] = {"results": results}
        if self.extra:
            self._step["extra"] = self.extra
        return self._step


def _observation(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Linked to its call where there is only one; the screen after several belongs to all of them."""
    if len(calls) == 1 and calls[0]["function_name"] == "bash_command":
        return {"source_call_id": calls[0]["tool_call_id"], "content": text}
    return {"content": text}


def _result_text(result: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in result.items())
