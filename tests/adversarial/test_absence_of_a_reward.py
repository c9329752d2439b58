"""A harness that would rather have no reward than a zero: an unscored rollout is left out of every mean."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from support.listening import Heard
from support.openai_server import OpenAIServer, Policy, Reply, Request
from support.usable import usable

import harness
from modularrsi.rollout.result import RolloutResult
from modularrsi.runs.harness_acting import HarnessActing
from modularrsi.runs.launch import launch
from modularrsi.runs.request import RunRequest

TASK = Path(__file__).parent.parent / "tasks" / "hidden-checks"
DRIVE = """
import json
from harness import Context, Ending, function

def say(ctx, method, params):
    door = ctx.terminal._engine
    door._writer.write(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\\n")
    door._writer.flush()

@function(module="agent_loop", point="drive", describes="hostile")
def terminus(ctx: Context) -> Ending:
"""


def run(
    folder: Path, body: str, monkeypatch: pytest.MonkeyPatch, policy: Policy = lambda request: Reply("hello")
) -> RolloutResult:
    usable("bubblewrap")
    monkeypatch.setenv("MODULARRSI_SCRATCH", str(folder))
    root = folder / "library"
    shutil.copytree(Path(harness.__file__).parent / "modules", root / "modules")
    shutil.copy(Path(harness.__file__).parent / "composition.json", root / "composition.json")
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    (root / "modules" / "agent_loop" / "drive" / "terminus.py").write_text(DRIVE + lines)
    with OpenAIServer(policy) as server:
        request = RunRequest(tasks=(TASK,), model="m", base_url=server.url, runs_dir=folder / "runs", library=root,
                             sandbox="bubblewrap")
        heard = Heard()
        asyncio.run(launch(request, HarnessActing(request), heard))
    return heard.results["hidden-checks/1"]


REQUESTS = [
    ("sandbox.exec", {"command": "true\0"}),
    ("sandbox.exec", {"command": "true", "cwd": "/\0"}),
    ("sandbox.exec", {"command": "echo \ud800"}),
    ("sandbox.read_file", {"path": "/\0"}),
    ("sandbox.read_file", {"path": "/\udfff"}),
    ("sandbox.write_file", {"path": "/\0", "data": ""}),
]


def test_what_no_command_can_hold_is_refused(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(short_folder, f"""
for method, params in {REQUESTS!r}:
    say(ctx, method, params)
    ctx.terminal._engine._reader.readline()
return Ending("done")
""", monkeypatch)
    assert (result.reward, result.failure) == (0.0, None)


def test_one_that_asks_and_never_reads_is_ended(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hidden-checks` limits the agent's time; without the session's own patience a task that does not would hang."""
    monkeypatch.setattr("modularrsi.session.serve.THINK_SECONDS", 2.0)
    result = run(short_folder, """
while True:
    say(ctx, "terminal.read", {"scope": "scrollback"})
""", monkeypatch)
    assert result.failure is not None
    assert (result.failure.owner, result.failure.cause) == ("agent", "worker_stalled")
    assert result.reward == 0.0


@pytest.mark.parametrize("body", [
    'for _ in range(14): ctx.terminal.send(["exit\\n"], 0.1)',
    'ctx.sandbox.exec("echo exit > /root/.bash_profile")\nfor _ in range(3): ctx.terminal.send(["exit\\n"], 0.3)',
], ids=["exits", "profile"])  # fmt: skip
def test_one_that_ends_its_shell_for_good_is_scored(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    result = run(short_folder, body + '\nreturn Ending("done")', monkeypatch)
    assert result.reward == 0.0
    assert result.steps[0].ending == "stopped"


def test_a_request_that_the_service_refuses_after_it_has_answered_is_the_harness_s_own(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_the_second(request: Request) -> Reply:
        return Reply("hello") if request.number == 0 else Reply(status=400, error="messages: too odd")

    result = run(short_folder, """
from harness import Message
from harness.errors import EngineRefusal
ctx.model.complete([Message("user", "hello")])
try: ctx.model.complete([Message("user", "impossible")])
except EngineRefusal: pass
return Ending("done")
""", monkeypatch, refuse_the_second)
    assert result.failure is not None
    assert (result.failure.owner, result.failure.cause) == ("agent", "bad_request")
    assert result.reward == 0.0


def test_a_service_that_refuses_the_first_request_is_the_service_s_fault(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(short_folder, """
from harness import Message
from harness.errors import EngineRefusal
try: ctx.model.complete([Message("user", "hello")])
except EngineRefusal: pass
return Ending("done")
""", monkeypatch, lambda request: Reply(status=400, error="unknown model"))
    assert result.failure is not None
    assert (result.failure.owner, result.failure.cause) == ("model_service", "bad_request")
    assert result.reward is None
