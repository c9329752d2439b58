"""Trajectories of ours and of Harbor come back as steps; odd files are named."""

from __future__ import annotations

import copy
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recordings import eventful, plain_turns, recorder

from modularrsi.errors import UserError
from modularrsi.recorder import load_trajectory, parse_trajectory
from modularrsi.recorder.view import CommandView, MetricsView

SMALL: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "agent": {"name": "a", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user",
         "message": [{"type": "text", "text": "look"}, {"type": "image", "source": {}}]},
        {"step_id": 2, "source": "agent", "message": "ok", "tool_calls": [
            {"tool_call_id": "c", "function_name": "f", "arguments": {"path": "/ü"}}], "observation": {"results": [
                {"source_call_id": "c", "content": "one"}, {"content": [{"type": "text", "text": "two"}]}]}},
    ],
}


def parsed(changed: dict[str, Any]) -> Any:
    return parse_trajectory(json.dumps(changed).encode(), "it.json")


def test_ours_comes_back(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    plain_turns(record)
    (tmp_path / "t.json").write_text(json.dumps(record.finish("complete")))
    view = load_trajectory(tmp_path / "t.json")
    assert (view.schema, view.agent, view.version, view.model) == ("ATIF-v1.8", "ours", "abc", "m")
    assert (view.ending, view.warnings, view.session) == ("complete", (), "run/task/1")
    step = view.steps[1]
    assert (step.number, step.source, step.message, step.reasoning) == (2, "agent", "reply 0", "because")
    assert step.commands == (CommandView("bash_command", "ls 0\n", 1.0),)
    assert step.observation == "output 0"
    assert step.metrics == MetricsView(100, 10, 5, 0.25)
    assert view.totals == MetricsView(201, 20, 10, 0.5)


def test_subagents_come_with_it(tmp_path: Path) -> None:
    view = parsed(eventful(recorder(tmp_path)))
    assert view.warnings == ()
    assert [part.agent for part in view.subagents] == ["ours-summary", "ours-questions", "ours-answers"]
    assert view.steps[5].subagents == tuple(part.session for part in view.subagents)


def test_parts_and_arguments_are_shown_as_text() -> None:
    view = parsed(SMALL)
    assert view.steps[0].message == "look\n[image]"
    assert view.steps[1].commands == (CommandView("f", '{"path": "/ü"}', None),)
    assert view.steps[1].observation == "one\ntwo"
    assert view.totals == MetricsView()


@pytest.mark.parametrize(("path", "value", "warning"), [
    (("steps", 1, "step_id"), 7, "steps[1].step_id is '7', 2 was expected"),
    (("steps", 1, "step_id"), None, "steps[1].step_id is 'None'"),
    (("steps", 1, "source"), "robot", "steps[1].source is 'robot'"),
    (("steps", 1, "observation", "results", 0, "source_call_id"), "x", "the call 'x', which is not in this step"),
    (("steps", 1, "observation", "results", 0, "source_call_id"), ["x"], "which is not in this step"),
    (("schema_version",), "ATIF-v1.12", "newer than 1.8"),
])
def test_what_is_odd_is_a_warning(path: tuple[Any, ...], value: Any, warning: str) -> None:
    changed = copy.deepcopy(SMALL)
    place: Any = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    view = parsed(changed)
    assert len(view.warnings) == 1
    assert warning in view.warnings[0]


@pytest.mark.parametrize(("data", "part"), [
    (b"", "is not JSON"),
    (b"\xff\xfe", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b"[]", "schema_version is missing"),
    (b'{"schema_version": "ATIF-v2.0"}', "schema_version is 'ATIF-v2.0'"),
    (b'{"schema_version": "ATIF-v1.8"}', "steps must be a list"),
    (b'{"schema_version": "ATIF-v1.8", "steps": []}', "steps must be a list"),
    (b'{"schema_version": "ATIF-v1.8", "steps": [1]}', "steps[0] is not an object"),
])
def test_what_is_no_trajectory_is_named(data: bytes, part: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_trajectory(data, "it.json")
    assert str(caught.value).startswith("it.json")
    assert part in str(caught.value)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load_trajectory(tmp_path / "absent.json")
    with pytest.raises(UserError, match="cannot be read"):
        load_trajectory(tmp_path)
    monkeypatch.setattr("modularrsi.recorder.reader.MAX_FILE_BYTES", 10)
    (tmp_path / "t.json").write_text(json.dumps(SMALL))
    with pytest.raises(UserError, match="at most 10 can be shown"):
        load_trajectory(tmp_path / "t.json")


names = st.sampled_from(["content", "text", "arguments", "results", "tool_call_id", "keystrokes"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner), max_leaves=6,
)
step_fields = st.sampled_from(["message", "tool_calls", "observation", "metrics", "extra", "timestamp"])
root_fields = st.sampled_from(["agent", "final_metrics", "extra", "continued_trajectory_ref"])


@given(st.dictionaries(step_fields, junk), st.dictionaries(root_fields, junk))
@settings(max_examples=60, deadline=None)
def test_any_junk_in_a_field_is_read(step: dict[str, Any], root: dict[str, Any]) -> None:
    view = parsed({"schema_version": "ATIF-v1.8", "steps": [step], **root})
    assert len(view.steps) == 1


@pytest.mark.parametrize("count", [13, pytest.param(130, marks=pytest.mark.slow)])
def test_memory_stays_bounded_on_a_large_file_full_of_token_ids(tmp_path: Path, count: int) -> None:
    ids = list(range(100_000, 107_000))
    step = {"source": "agent", "message": "x" * 1000, "metrics": {"prompt_tokens": 7000, "prompt_token_ids": ids,
                                                               "logprobs": [-0.25] * 7000}}
    steps = [{**step, "step_id": number} for number in range(1, count + 1)]
    path = tmp_path / "large.json"
    path.write_text(json.dumps({**SMALL, "steps": steps}))
    size = path.stat().st_size
    assert size > 100_000 * count
    tracemalloc.start()
    try:
        view = load_trajectory(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(view.steps) == count
    assert view.steps[-1].metrics.prompt_tokens == 7000
    assert peak < 3 * size
    assert kept < size / 4


def test_recorded_runs_of_terminus_2_are_read(shared: Path) -> None:
    paths = sorted((shared / "data" / "trajectories").glob("terminus2*/*trajectory*.json"))
    assert len(paths) > 25
    for path in paths:
        view = load_trajectory(path)
        assert view.warnings == ()
        assert view.agent.startswith("terminus-2")
        assert view.totals.prompt_tokens is not None


def test_a_recorded_summary_is_read(shared: Path) -> None:
    folder = shared / "data" / "trajectories" / "terminus2"
    view = load_trajectory(folder / "hello-world-context-summarization.trajectory.json")
    assert [step.source[0] for step in view.steps] == list("uaaasuaaaa")
    assert len(view.steps[4].subagents) == 3
    assert view.steps[1].commands == (CommandView("bash_command", "mkdir test_dir\n", 0.1),)
    assert view.steps[8].commands == (CommandView("mark_task_complete", "", None),)
    linear = load_trajectory(folder / "hello-world-context-summarization-linear-history.trajectory.json")
    assert linear.continued_in == "trajectory.cont-1.json"
