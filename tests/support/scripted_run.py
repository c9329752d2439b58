"""One run of the seed harness against a scripted server, through the whole engine, and what there is to assert on.

    with OpenAIServer([say("ls\\n"), say(complete=True), say(complete=True)]) as server:
        run = play(folder, server)
        assert run.result.reward == 0.0

Everything is real but the model: HTTP, worker, cage, tmux, sandbox, tests. Model settings go into a models file, so
that retries and time limits can be small; `folder` must be short (`short_folder`), for sockets lie below it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from modularrsi.rollout.result import RolloutResult
from modularrsi.runs.find import find
from modularrsi.runs.harness_acting import HarnessActing
from modularrsi.runs.launch import launch
from modularrsi.runs.report import Report
from modularrsi.runs.request import RunRequest
from support.listening import Heard
from support.openai_server import OpenAIServer, Reply, Request
from support.taskfolders import write_task

GREETING = Path(__file__).parent.parent / "tasks" / "greeting"
NAME = "scripted"

# Long enough that a shell on a busy machine has run it before the tests look.
WRITE = ("printf 'Hello, world!\\n' > /app/greeting.txt\n", 0.6)

XML = {
    "agent_loop/drive": ["terminus"], "agent_loop/guard": ["reply_warnings"], "agent_loop/recover": ["ask_again"],
    "observation/capture": ["incremental"], "observation/refine": ["clean_controls"],
    "observation/limit": ["head_and_tail"], "tools/grammar": ["xml_tags"], "tools/route": ["keystrokes"],
    "context/fit": ["three_step_summary"], "context/retain": ["task_statement"],
    "completion/check": ["declared_twice"], "completion/decide": ["all_agree"],
}  # fmt: skip

QUICK = {"retries": 1, "timeout_sec": 20.0, "retry_total_sec": 30.0}
"""Two attempts a call: enough for a fault that passes, and a service that is down is given up within a second."""


def say(*commands: str | tuple[str, float], complete: bool = False, plan: str = "p", **fields: Any) -> Reply:
    """A reply in the JSON grammar. A command is its keystrokes, or (keystrokes, seconds)."""
    listed = [(c, 0.1) if isinstance(c, str) else c for c in commands]
    content = {
        "analysis": "a", "plan": plan, "commands": [{"keystrokes": k, "duration": d} for k, d in listed],
        "task_complete": complete,
    }  # fmt: skip
    return Reply(json.dumps(content), **fields)


def say_xml(*commands: str | tuple[str, float], complete: bool = False, **fields: Any) -> Reply:
    """The same in the XML grammar."""
    listed = [(c, 0.1) if isinstance(c, str) else c for c in commands]
    inner = "\n".join(f'<keystrokes duration="{seconds}">{keys}</keystrokes>' for keys, seconds in listed)
    text = (
        f"<response>\n<analysis>a</analysis>\n<plan>p</plan>\n<commands>\n{inner}\n</commands>\n"
        f"<task_complete>{'true' if complete else 'false'}</task_complete>\n</response>"
    )
    return Reply(text, **fields)


def solved() -> list[Reply]:
    """Two turns that solve the greeting task."""
    return [say(WRITE, complete=True), say(complete=True)]


@dataclass(frozen=True)
class Run:
    """What came of a run; the properties are of its only rollout."""

    report: Report
    heard: Heard
    folder: Path

    @property
    def result(self) -> RolloutResult:
        (result,) = self.heard.results.values()
        return result

    @property
    def ending(self) -> str:
        return self.result.steps[-1].ending

    @property
    def owner(self) -> tuple[str, str] | None:
        """(owner, cause) of the rollout's failure."""
        failure = self.result.failure
        return failure and (failure.owner, failure.cause)

    @property
    def trajectories(self) -> list[dict[str, Any]]:
        """As they are stored, one for each step of the task."""
        return [dict(document) for document in find(self.folder / self.result.id).documents]

    @property
    def trajectory(self) -> dict[str, Any]:
        (trajectory,) = self.trajectories
        return trajectory


def request_of(
    folder: Path, server: OpenAIServer | str, task: Path | Iterable[Path] = GREETING, *,
    model: Mapping[str, Any] | None = None, composition: Mapping[str, Any] | None = None, **fields: Any,
) -> RunRequest:  # fmt: skip
    """`model`: settings of the solver beside `QUICK`; `fields`: of the RunRequest."""
    url = server if isinstance(server, str) else server.url
    settings = {"model": "m", "base_url": url, **QUICK, **(model or {})}
    models = folder / "models.toml"
    models.write_text("[models.solver]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items()))
    chosen = None
    if composition is not None:
        chosen = folder / "composition.json"
        chosen.write_text(json.dumps(dict(composition)))
    request = RunRequest(
        tasks=(task,) if isinstance(task, Path) else tuple(task), models_file=models, composition=chosen, name=NAME,
        sandbox="bubblewrap", runs_dir=folder / "runs", max_turns=30,
    )  # fmt: skip
    return replace(request, **fields)


def play(folder: Path, server: OpenAIServer | str, task: Path | Iterable[Path] = GREETING, **fields: Any) -> Run:
    """Run it; a run of this folder that is not complete goes on. Arguments as those of `request_of`."""
    request, heard = request_of(folder, server, task, **fields), Heard()
    with mock.patch.dict(os.environ, {"MODULARRSI_SCRATCH": str(folder)}):
        report = asyncio.run(launch(request, HarnessActing(request), heard))
    return Run(report, heard, folder / "runs" / NAME)


def greeting(folder: Path, *, agent_sec: float = 120.0, more: str = "", files: dict[str, str] | None = None) -> Path:
    """The greeting task with another time limit, and `more` at the end of its `[environment]` table."""
    toml = (
        f'schema_version = "1.4"\n[agent]\ntimeout_sec = {agent_sec}\n[verifier]\ntimeout_sec = 60.0\n'
        f'[environment]\nworkdir = "/app"\nnetwork_mode = "no-network"\n{more}\n'
    )
    copied = {
        name: (GREETING / name).read_text() for name in ("environment/Dockerfile", "tests/test.sh")
    }
    return write_task(folder / "hello", toml, (GREETING / "instruction.md").read_text(), copied | (files or {}))


# ---------------------------------------------------------------------------------------------- reading a trajectory


def agent_steps(trajectory: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [step for step in trajectory["steps"] if step["source"] == "agent"]


def sources(trajectory: Mapping[str, Any]) -> list[str]:
    return [step["source"] for step in trajectory["steps"]]


def typed(step: Mapping[str, Any]) -> list[str]:
    """The keystrokes of an agent's step."""
    calls = step.get("tool_calls", [])
    return [call["arguments"]["keystrokes"] for call in calls if call["function_name"] == "bash_command"]


def shown(step: Mapping[str, Any]) -> str:
    """What the model was shown after it."""
    return "\n".join(result.get("content", "") for result in step.get("observation", {}).get("results", []))


def purposes(trajectory: Mapping[str, Any]) -> list[str]:
    """Of the calls that were no turns, in order."""
    refs = [
        ref
        for step in trajectory["steps"]
        for result in step.get("observation", {}).get("results", [])
        for ref in result.get("subagent_trajectory_ref", [])
    ]
    return [ref["extra"]["purpose"] for ref in refs]


def roles(request: Request) -> str:
    """First letters of the roles of a request's messages: "uau"."""
    return "".join(message["role"][0] for message in request.body["messages"])


def told(request: Request) -> str:
    """Everything that a request says."""
    return "\n".join(message["content"] for message in request.body["messages"])
