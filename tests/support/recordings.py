"""A rollout as the engine would record it, with everything that can happen in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.types import Key, Snapshot, Usage
from modularrsi.recorder import Recorder


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def recorder(folder: Path, **options: Any) -> Recorder:
    return Recorder(folder / "part.jsonl", session_id="run/task/1", agent_name="ours", agent_version="abc",
                    model_name="m", **options)


def plain_turns(record: Recorder, turns: int = 2) -> list[dict[str, str]]:
    """`turns` turns of one command each; returns the history after them (each reply included)."""
    history = [message("user", "do it")]
    for turn in range(turns):
        record.request(history)
        record.reply(f"reply {turn}", "because", Usage(100 + turn, 10, 5), 0.25, "m-1", "stop")
        record.sent([f"ls {turn}\n"], 1.0)
        record.read(Snapshot(f"screen {turn}"))
        history = [*history, message("assistant", f"reply {turn}"), message("user", f"output {turn}")]
    return history


def eventful(record: Recorder) -> dict[str, Any]:
    """Faults, a truncated reply, a summary in three calls, helper calls, a violation."""
    record.read(Snapshot("$ "))
    record.trace([{"turn": 0, "module": "observation", "point": "capture", "function": "full", "milliseconds": 1.5}])
    record.request([message("system", "be good"), message("user", "do it")])
    record.model_error("model_unavailable", "503 for the third time")
    record.request([message("system", "be good"), message("user", "do it")])
    record.reply("{cut", "", Usage(10, 8), None, "m", "length")
    history = [message("system", "be good"), message("user", "do it"), message("assistant", "{cut"),
               message("user", "too long")]
    record.request(history)
    record.reply("go", "", Usage(20, 4, 0), 0.5, "m", "stop")
    record.trace([{"turn": 1, "module": "tools", "point": "route", "function": "x", "outcome": "helper"}, "junk", 3])
    record.note("a note")
    record.sandbox_call("write_file", {"path": "/app/x", "content": "text"}, {"bytes": 4})
    record.sandbox_call("exec", {"command": "wc /app/x"}, {"exit_code": 0, "stdout": "4", "stderr": ""})
    record.sent([Key("C-c")], 0.1)
    record.sent(["vi", Key("Enter"), "i", Key("Escape")], 2)
    record.read(Snapshot("~", recreated=True, busy=True))
    history = [*history, message("assistant", "go")]
    record.request([*history, message("user", "summarise")], "summary")
    record.reply("the summary", "", Usage(30, 3, 1), 0.125, "m", "stop")
    record.request([message("user", "ask")], "questions")
    record.reply("why?", "", Usage(5, 2, 0), 0.125, "m", "stop")
    record.request([*history, message("user", "answer")], "answers")
    record.model_error("context_overflow", "too long")
    record.request([*history[:2], message("assistant", "why?"), message("user", "here are the answers")])
    record.reply("done", "", Usage(40, 1, 2), 0.25, "m", "stop")
    record.read(Snapshot("final screen"))
    record.violation("unknown method 'x'")
    return record.finish("protocol_violation")
