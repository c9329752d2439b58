"""The worker as a real process, spoken to over its pipes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.engine import ROOT, FakeEngine, start_line
from support.libraries import MINIMAL, source, write_library

from harness import wire
from harness.client import Engine, RemoteModel, RemoteSandbox, RemoteTerminal
from harness.errors import (
    ContextOverflow,
    EngineRefusal,
    ModelUnavailable,
    ReplyTruncated,
    Stopped,
    WireError,
)
from harness.loader import seed_library_path
from harness.scripted import Effect, ScriptedModel, ScriptedSandbox, ScriptedTerminal
from harness.types import Completion, Executed, Key, Message, Snapshot, Usage
from harness.worker import serve

LS = '{"commands": [{"keystrokes": "ls\\n"}]}'
DONE = '{"commands": [], "task_complete": true}'
CAPTURE = "modules/observation/capture/capture.py"


def engine(*answers: Any, effects: tuple[Effect | str, ...] = (), sandbox: ScriptedSandbox | None = None) -> FakeEngine:
    return FakeEngine(ScriptedModel(answers), ScriptedTerminal(effects), sandbox or ScriptedSandbox())


def capture(body: str) -> dict[str, str]:
    return {CAPTURE: source("observation/capture", "capture", "ctx: Context", body)}


# ------------------------------------------------------------------------------------------------------ whole rollouts


def test_a_rollout_over_the_wire(tmp_path: Path) -> None:
    library = write_library(tmp_path, MINIMAL)
    ran = engine(LS, "gibberish", DONE, effects=("ls\nhello.txt\n$ ",)).run(start_line(library))
    assert (ran.done, ran.code, ran.stderr) == ({"reason": "complete", "detail": "declared complete"}, 0, "")
    assert ran.terminal.sent == [(("ls\n",), 1.0)]
    assert ran.model.requests[1].messages[-1].content == "ls\nhello.txt\n$ "
    assert {call["turn"] for call in ran.trace} == {0, 1, 2, 3}
    assert ran.lines[-1]["method"] == "done"


def test_the_seed_runs_with_its_own_default_composition() -> None:
    def reply(*keystrokes: str, done: bool = False) -> str:
        commands = [{"keystrokes": text, "duration": 0.1} for text in keystrokes]
        return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": done})

    ran = engine(reply("ls\n"), "junk", reply(done=True), reply(done=True), effects=("ls\nhello.txt\n$ ",))
    ran.run(start_line(Path(seed_library_path())))
    assert ran.done and ran.done["reason"] == "complete", ran.done
    assert len(ran.model.requests) == 4
    assert "hello.txt" in ran.model.requests[1].messages[-1].content
    assert [message.role for message in ran.model.requests[3].messages] == [*["user", "assistant"] * 3, "user"]


def test_the_task_and_the_limits_arrive(tmp_path: Path) -> None:
    task = {
        "instruction": "Do é.",
        "workdir": "/app",
        "skills": [{"name": "pdf", "description": "reads", "location": "/s"}],
        "mcp_servers": [{"name": "db", "transport": "stdio", "url": "", "command": "db", "args": ["-v"]}],
    }
    start = start_line(write_library(tmp_path, MINIMAL), task=task, limits={"max_turns": 1})
    ran = engine(LS, LS).run(start)
    prompt = ran.model.requests[0].messages[0].content
    assert "Do é." in prompt and "<name>pdf</name>" in prompt and "command: db -v" in prompt
    assert ran.done and ran.done["reason"] == "max_turns"


def test_a_print_does_not_break_the_protocol(tmp_path: Path) -> None:
    body = (
        "import os, subprocess, sys\n"
        "print('to stdout')\n"
        "sys.__stdout__.write('to the old stdout\\n'); sys.__stdout__.flush()\n"
        "os.write(1, b'to descriptor 1\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a child\")'])\n"
        "return Snapshot('stdin: ' + repr(sys.stdin.read()))"
    )
    ran = engine(LS, DONE).run(start_line(write_library(tmp_path, MINIMAL, capture(body))))
    assert ran.done == {"reason": "complete", "detail": "declared complete"}
    assert ran.model.requests[1].messages[-1].content == "stdin: ''"
    for text in ("to stdout", "to the old stdout", "to descriptor 1", "from a child"):
        assert text in ran.stderr


def test_a_print_at_import_does_not_either(tmp_path: Path) -> None:
    files = capture("return Snapshot('')")
    files[CAPTURE] = files[CAPTURE].replace("@function", "print('loading')\n@function", 1)
    ran = engine(DONE).run(start_line(write_library(tmp_path, MINIMAL, files)))
    assert ran.done and ran.done["reason"] == "complete"
    assert "loading" in ran.stderr


def test_a_function_that_raises_is_named(tmp_path: Path) -> None:
    ran = engine(LS).run(start_line(write_library(tmp_path, MINIMAL, capture("raise ValueError('no\\udcff')"))))
    assert ran.code == 0
    assert ran.done == {
        "reason": "function_error", "detail": "observation/capture/capture: raised ValueError: no\ufffd",
    }
    assert any("ValueError" in call["outcome"] for call in ran.trace)


def test_a_stop_by_the_engine_ends_the_rollout(tmp_path: Path) -> None:
    ran = engine(LS, Stopped("the budget is used up")).run(start_line(write_library(tmp_path, MINIMAL)))
    assert ran.done == {"reason": "stopped", "detail": "the budget is used up"}


def test_an_engine_that_hangs_up_leaves_no_worker(tmp_path: Path) -> None:
    ran = engine(LS, LS, LS).run(start_line(write_library(tmp_path, MINIMAL)), hang_up_after=4)
    assert ran.code == 0
    assert ran.done == {"reason": "stopped", "detail": "the engine closed the connection"}


def test_a_request_no_line_can_carry_is_refused_not_fatal(tmp_path: Path) -> None:
    body = (
        "try:\n    ctx.terminal.send(['x' * 17_000_000], 0.0)\nexcept EngineRefusal as e:\n"
        "    first = e.message\n"
        "try:\n    ctx.terminal.send(['x'], float('nan'))\nexcept EngineRefusal as e:\n"
        "    return Snapshot(first + '; ' + e.message)\nreturn Snapshot('')"
    )
    ran = engine(LS, DONE).run(start_line(write_library(tmp_path, MINIMAL, capture(body))))
    text = ran.model.requests[1].messages[-1].content
    assert "are allowed" in text and "not a JSON message" in text


def test_many_trace_calls_go_out_in_bounded_lines(tmp_path: Path) -> None:
    drive = source("agent_loop/drive", "drive", "ctx: Context",
                   "for _ in range(1200):\n    ctx.run.retained()\nreturn Ending('complete')")
    retain = source("context/retain", "retain", "ctx: Context", "return 'x'")
    library = write_library(
        tmp_path, MINIMAL,
        {"modules/agent_loop/drive/drive.py": drive, "modules/context/retain/retain.py": retain},
    )
    composition = {**{key.split("/", 1)[1].rsplit("/", 1)[0]: [Path(key).stem] for key in MINIMAL},
                   "context/retain": ["retain"]}
    ran = engine().run(start_line(library, composition))
    sizes = [len(line["params"]["calls"]) for line in ran.lines if line["method"] == "log"]
    assert sum(sizes) == 1202 and max(sizes) <= 500


# --------------------------------------------------------------------------------------------------------- bad starts


def test_an_unknown_function_in_the_composition_is_explained(tmp_path: Path) -> None:
    ran = engine().run(start_line(write_library(tmp_path, MINIMAL), {"tools/route": ["rout"]}))
    assert ran.done and ran.done["reason"] == "composition_error"
    assert "tools/route has no function 'rout'; did you mean 'route'?" in ran.done["detail"]
    assert "agent_loop/drive needs exactly one function" in ran.done["detail"]
    assert ran.code == 0


@pytest.mark.parametrize("composition", [[], "x", {"tools/route": 3}])
def test_a_composition_of_the_wrong_shape_is_explained(tmp_path: Path, composition: object) -> None:
    remote, _ = client(start_line(write_library(tmp_path, MINIMAL), composition))
    assert serve(remote).reason == "composition_error"


def test_a_library_that_does_not_load_is_explained(tmp_path: Path) -> None:
    ran = engine().run(start_line(write_library(tmp_path, MINIMAL, {CAPTURE: "def capture(:\n"})))
    assert ran.done and ran.done["reason"] == "library_error"
    assert ran.done["detail"].startswith(f"{CAPTURE}:1: syntax error")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "begin"}, "the first line must be the start message"),
        ({"protocol": 2}, "protocol 2; this worker speaks 1"),
        ({"task": None}, "field 'task' is missing"),
        ({"task": {"instruction": "x", "tests": "secret"}}, "start: task: .*tests"),
        ({"task": {}}, "start: task: .*instruction"),
        ({"task": {"instruction": "x", "skills": [1]}}, "task.skills must be an object"),
        ({"task": {"instruction": "x", "mcp_servers": ["y"]}}, "task.mcp_servers must be an object"),
        ({"task": {"instruction": "x", "mcp_servers": 3}}, "task.mcp_servers must be a list"),
        ({"limits": {"max_turn": 3}}, "start: limits: .*max_turn"),
        ({"limits": [3]}, "limits must be an object"),
        ({"library": 3}, "field 'library'"),
    ],
)
def test_a_start_line_that_breaks_the_protocol_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    remote, _ = client({**start_line(write_library(tmp_path, MINIMAL)), **change})
    with pytest.raises(WireError, match=message):
        serve(remote)


def test_a_start_line_that_breaks_the_protocol_ends_the_process(tmp_path: Path) -> None:
    ran = engine().run(start_line(tmp_path, protocol=2))
    assert ran.code == 1
    assert ran.done == {"reason": "protocol_error", "detail": "protocol 2; this worker speaks 1"}
    assert ran.stderr == "harness worker: protocol 2; this worker speaks 1\n"


def test_closed_input_before_the_start_is_a_quiet_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "harness"], stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT, timeout=60
    )
    assert ran.returncode == 0
    assert wire.decode(ran.stdout)["params"]["reason"] == "stopped"


# ----------------------------------------------------------------------------------------------------------- isolation


def test_harness_needs_neither_the_engine_nor_any_package() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules['modularrsi'] = None\n"
        "import harness, harness.worker, harness.scripted, harness.conformance.base\n"
        "own = {n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names) - {'__main__', 'harness'}\n"
        "assert own <= {'modularrsi'}, own\n"
        "assert set(harness.__all__) <= set(vars(harness))"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


def test_the_worker_does_not_load_what_makes_it_slow_to_start() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport harness.worker\n"
        "slow = {'asyncio', 'pathlib', 'logging', 'typing_extensions', 'subprocess', 'urllib.parse', 'socket',"
        " 'harness.scripted', 'harness.conformance'} & set(sys.modules)\nassert not slow, slow"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


# ----------------------------------------------------------------------------------------------------- the client alone


def client(*answers: dict[str, Any] | bytes) -> tuple[Engine, io.BytesIO]:
    lines = b"".join(a if isinstance(a, bytes) else wire.encode(a) for a in answers)
    writer = io.BytesIO()
    return Engine(io.BytesIO(lines), writer), writer


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("context_overflow", ContextOverflow),
        ("reply_truncated", ReplyTruncated),
        ("model_unavailable", ModelUnavailable),
        ("stopped", Stopped),
        ("refused", EngineRefusal),
        ("something new", EngineRefusal),
        (None, EngineRefusal),
    ],
)
def test_error_kinds_become_exceptions(kind: str | None, expected: type[EngineRefusal]) -> None:
    error = {"kind": kind, "message": "why", "text": "half"}
    remote, _ = client({"id": 1, "error": error})
    with pytest.raises(EngineRefusal) as caught:
        RemoteModel(remote).complete([Message("user", "x")])
    assert type(caught.value) is expected
    assert caught.value.message == "why"
    assert getattr(caught.value, "text", "half") == "half"


def test_all_error_kinds_of_the_wire_are_known() -> None:
    kinds = {error.kind for error in (ContextOverflow, ReplyTruncated, ModelUnavailable, Stopped, EngineRefusal)}
    assert kinds == set(wire.ERROR_KINDS)


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 2, "ok": {}},
        {"id": 1, "ok": []},
        {"id": 1},
        {"ok": {}},
        b"nonsense\n",
        b"[]\n",
        b'{"id": 1, "ok": ' + b" " * (wire.MAX_LINE_BYTES + 10) + b"{}}\n",
    ],
)
def test_a_broken_answer_is_a_wire_error(answer: dict[str, Any] | bytes) -> None:
    remote, _ = client(answer)
    with pytest.raises(WireError):
        remote.request("terminal.read", {"scope": "new"})


@pytest.mark.parametrize("rest", [b"", b'{"id": 1, "o'])
def test_an_engine_that_is_gone_means_stopped(rest: bytes) -> None:
    remote, _ = client(rest)
    with pytest.raises(Stopped):
        remote.request("terminal.read", {"scope": "new"})


def test_capabilities_speak_the_wire() -> None:
    remote, writer = client(
        {"id": 1, "ok": {"text": "hi\ud800", "reasoning": None, "usage": {"prompt_tokens": 3, "more": 1}}},
        {"id": 2, "ok": {"recreated": True}},
        {"id": 3, "ok": {"text": "$ ", "scope": "new", "complete": False, "a_new_field": 1}},
        {"id": 4, "ok": {"exit_code": None, "timed_out": True}},
        {"id": 5, "ok": {"data": "AAEC", "truncated": False}},
        {"id": 6, "ok": {"size": 3}},
    )
    reply = RemoteModel(remote).complete([Message("user", "x\0\udfff")], "summary")
    assert reply == Completion("hi\ufffd", "", Usage(3))
    assert RemoteTerminal(remote).send(["ls", Key("Enter")], 0.5) is True
    assert RemoteTerminal(remote).read("new") == Snapshot("$ ", "new", complete=False)
    assert RemoteSandbox(remote).exec("sleep 99", timeout=1) == Executed(None, timed_out=True)
    assert RemoteSandbox(remote).read_file("/a") == b"\0\1\2"
    assert RemoteSandbox(remote).write_file("/a", b"\0\1\2") == 3
    requests = [wire.check_request(wire.decode(line)) for line in writer.getvalue().splitlines()]
    assert [number for number, _, _ in requests] == [1, 2, 3, 4, 5, 6]
    assert requests[0][2]["messages"] == [{"role": "user", "content": "x\ufffd\ufffd"}]
    assert requests[1][2] == {"keys": [{"text": "ls"}, {"key": "Enter"}], "wait": 0.5}
    assert requests[5][2] == {"path": "/a", "data": "AAEC", "append": False}


def test_a_large_file_goes_in_pieces_that_fit_into_lines() -> None:
    data = bytes(range(256)) * 40_000
    remote, writer = client(*({"id": n, "ok": {"size": 1}} for n in (1, 2, 3)))
    assert RemoteSandbox(remote).write_file("/big", data) == len(data)
    sandbox = ScriptedSandbox()
    for line in writer.getvalue().splitlines():
        assert len(line) < wire.MAX_LINE_BYTES
        FakeEngine(ScriptedModel(), ScriptedTerminal(), sandbox)._sandbox_write_file(**wire.decode(line)["params"])
    assert sandbox.files["/big"] == data


def test_messages_beyond_any_line_are_an_overflow_before_they_are_sent() -> None:
    remote, writer = client()
    with pytest.raises(ContextOverflow):
        RemoteModel(remote).complete([Message("user", "x" * 9_000_000)])
    assert writer.getvalue() == b""


def test_a_file_that_is_not_base64_is_a_wire_error() -> None:
    remote, _ = client({"id": 1, "ok": {"data": "%%%"}})
    with pytest.raises(WireError, match="not base64"):
        RemoteSandbox(remote).read_file("/a")
