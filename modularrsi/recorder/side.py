"""A call of the model that is no turn: a summary, its questions, their answers. A trajectory of its own."""

from __future__ import annotations

from typing import Any

from modularrsi.recorder.part import Line
from modularrsi.recorder.steps import plain_step, reply_step
from modularrsi.recorder.totals import Totals


class SideCall:
    """`name` identifies it within the whole trajectory; `request` is its line."""

    def __init__(self, name: str, request: Line) -> None:
        self.name, self.purpose, self.at = name, str(request["purpose"]), str(request["at"])
        self._request = request
        self._replies: list[Line] = []
        self._error = ""
        self._totals = Totals()

    def reply(self, line: Line) -> None:
        self._replies.append(line)
        self._totals.add(line["metrics"])

    def error(self, line: Line) -> None:
        self._error = f"The model did not answer ({line['error']}): {line['message']}"

    def reference(self) -> dict[str, Any]:
        return {"trajectory_id": self.name, "extra": {"purpose": self.purpose}}

    def trajectory(self, header: Line) -> dict[str, Any]:
        """What the call shared with the main conversation is not repeated."""
        agent = {**header["agent"], "name": f"{header['agent']['name']}-{self.purpose}"}
        steps = self._prompt(agent.get("model_name"))
        steps += [reply_step(reply, agent.get("model_name")) for reply in self._replies]
        if self._error:
            steps.append(plain_step("system", self._error, self.at))
        for number, step in enumerate(steps, 1):
            step["step_id"] = number
        return {
            "schema_version": "ATIF-v1.8",
            "session_id": header["session_id"],
            "trajectory_id": self.name,
            "agent": agent,
            "steps": steps,
            "final_metrics": self._totals.final_metrics(len(steps)),
        }

    def _prompt(self, model_name: str | None) -> list[dict[str, Any]]:
        kept, steps = self._request["kept"], list[dict[str, Any]]()
        if kept:
            text = f"The first {kept} messages are those of the main conversation; they are not repeated here."
            steps.append(plain_step("system", text, self.at))
        for message in self._request["messages"]:
            source = "agent" if message["role"] == "assistant" else message["role"]
            step = plain_step(source, message["content"], self.at)
            if source == "agent":
                step["is_copied_context"] = True
                step |= {"model_name": model_name} if model_name else {}
            steps.append(step)
        return steps or [plain_step("system", "An empty request.", self.at)]
