"""The seed library reproduces the order of events of recorded runs of the reference agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.recorded import SUMMARY_STEPS, answers, expected, last_message, replay, steps

from harness.composition import Composition
from harness.loader import load_library, seed_library_path
from harness.registry import Function
from harness.scripted import Request, ScriptedContext, ScriptedModel
from harness.types import Limits

HELLO = "hello-world-"
QWEN_TURNS = 8


@pytest.fixture(scope="module")
def seed() -> list[Function]:
    root = seed_library_path()
    registry = load_library(root).registry
    return [entry for entries in Composition.default(registry, root).resolve(registry).values() for entry in entries]


def recording(shared: Path, name: str) -> Path:
    return shared / "data" / "trajectories" / "terminus2" / f"{HELLO}{name}.json"


def test_an_unreadable_reply_runs_nothing_and_completion_is_asked_twice(seed: list[Function], shared: Path) -> None:
    run = steps(recording(shared, "invalid-json.trajectory"))
    events, ctx = replay(seed, list(answers(run)), Limits())
    assert events == expected(run, None)
    assert [event for event in events if event[0] != "typed"] == [
        ("told", "error"),
        ("told", "observation"),
        ("told", "question"),
        ("ended", "complete"),
    ]
    assert ctx.state.number == len([step for step in run if step["source"] == "agent"])


def test_a_run_that_is_cut_short_ends_where_it_stood(seed: list[Function], shared: Path) -> None:
    run = steps(recording(shared, "timeout.trajectory"))
    events, ctx = replay(seed, list(answers(run)), Limits())
    assert events == expected(run, None)
    assert events[-1] == ("ended", "stopped")
    assert len(ctx.state.turns) == 3


def test_a_full_window_is_handed_over_in_three_steps(seed: list[Function], shared: Path) -> None:
    name = "context-summarization.trajectory"
    run = steps(recording(shared, name))
    summary = [last_message(recording(shared, f"{name}.summarization-1-{part}")) for part in SUMMARY_STEPS]
    events, ctx = replay(seed, list(answers(run, summary)), Limits(context_tokens=8_000), handover=summary[-1][:40])
    assert events == expected(run, None)
    assert ("told", "handover") in events
    _check_purposes(ctx, refused_at=3)


def test_the_history_after_a_hand_over_is_that_of_the_linear_recording(seed: list[Function], shared: Path) -> None:
    name = "context-summarization-linear-history.trajectory"
    before, after = recording(shared, name), recording(shared, f"{name}.cont-1")
    copied = [step["message"] for step in json.loads(after.read_text(encoding="utf-8"))["steps"][:4]]
    questions, told = copied[2], copied[3].split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
    summary = copied[1].split("**Summary from Previous Agent:**\n")[1].split("\n\n**Current Terminal")[0]
    run = steps(before, after)
    script = list(answers(run, [summary, questions, told]))
    events, ctx = replay(seed, script, Limits(context_tokens=8_000), handover=told[:40])
    assert events == expected(run, None)
    _check_purposes(ctx, refused_at=3)
    # user, user, assistant, user in the recording; the kernel joins neighbours of one role.
    asked = _requests(ctx)[7].messages
    assert [message.role for message in asked] == ["user", "assistant", "user"]
    assert asked[0].content.startswith(_requests(ctx)[0].messages[0].content)
    assert summary in asked[0].content
    assert asked[1].content == questions
    assert told in asked[2].content


@pytest.mark.parametrize("index", range(23))
def test_runs_of_a_small_model(seed: list[Function], shared: Path, index: int) -> None:
    files = sorted((shared / "data" / "trajectories" / "terminus2_qwen").glob("*.trajectory.json"))
    run = steps(files[index])
    events, _ = replay(seed, list(answers(run)), Limits(max_turns=QWEN_TURNS))
    assert events == expected(run, QWEN_TURNS)


def _requests(ctx: ScriptedContext) -> list[Request]:
    assert isinstance(ctx.model, ScriptedModel)
    return ctx.model.requests


def _check_purposes(ctx: ScriptedContext, refused_at: int) -> None:
    purposes = [request.purpose for request in _requests(ctx)]
    assert purposes[: refused_at + 1] == ["turn"] * (refused_at + 1)
    assert purposes[refused_at + 1 : refused_at + 4] == list(SUMMARY_STEPS)
    assert set(purposes[refused_at + 4 :]) == {"turn"}
