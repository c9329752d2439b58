"""What a model said in recorded runs of Terminus-2, said again to our engine: the same events, endings and rewards.

Shells, files and tests are real here; `tests/harness/test_recorded_runs.py` compares the loop alone, in a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.openai_server import OpenAIServer, Policy, Reply, Request, overflow
from support.recorded import SUMMARY_STEPS, Event, answers, expected, last_message, steps
from support.scripted_run import agent_steps, greeting, play, purposes, roles, shown, typed
from support.usable import usable

QWEN_TURNS = 8
HELLO_TEST = (
    "#!/bin/bash\n"
    'if [ "$(cat /app/hello.txt)" = "Hello, world!" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
)


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    usable("bubblewrap")


def hello(folder: Path, agent_sec: float = 120.0) -> Path:
    """The task of the recordings: hello.txt with "Hello, world!"."""
    return greeting(folder, agent_sec=agent_sec, files={"tests/test.sh": HELLO_TEST})


def recording(shared: Path, name: str) -> Path:
    return shared / "data" / "trajectories" / "terminus2" / f"hello-world-{name}.json"


def saying(script: Iterator[str | Exception]) -> Policy:
    """The recorded replies in their order; a refused prompt where the recorded run had one; then silence."""

    def policy(request: Request) -> Reply | str:
        answer = next(script, None)
        if answer is None:
            return Reply(hang=True)
        return answer if isinstance(answer, str) else overflow()

    return policy


def events(trajectory: dict[str, Any], ending: str) -> list[Event]:
    """As those of `support.recorded`, from our own trajectory."""
    found: list[Event] = []
    for step in trajectory["steps"]:
        if step["source"] == "agent":
            calls = [call["arguments"] for call in step.get("tool_calls", [])]
            found += [("typed", call["keystrokes"], call["duration"]) for call in calls]
            found.append(("told", told(step)))
        elif "rewrote its history" in step["message"]:
            found[-1] = ("told", "handover")
    if ending != "stopped":
        found.pop()  # nobody was told what the last turn showed
    return [*found, ("ended", ending)]


def told(step: dict[str, Any]) -> str:
    text = shown(step)
    if text.startswith("Your last reply could not be read"):
        return "error"
    return "question" if "Are you sure that the task is done?" in text else "observation"


def screen_lines(text: str) -> list[str]:
    """What a terminal showed, without the words around it, bare prompts and the machine's name."""
    lines = [re.sub(r"^root@[\w-]+:", "root@host:", line.rstrip()) for line in text.splitlines()]
    words = ("New Terminal Output:", "Current Terminal Screen:", "The terminal now:", "Current terminal state:")
    return [line for line in lines if line and line not in words and not re.fullmatch(r"root@host:\S*#", line)]


def same_screens(ours: dict[str, Any], theirs: list[dict[str, Any]]) -> None:
    """Turn by turn, for turns that showed the terminal and nothing else."""
    pairs = zip(agent_steps(ours), [step for step in theirs if step["source"] == "agent"], strict=True)
    compared = 0
    for mine, other in pairs:
        text = shown(other)
        if text.startswith("New Terminal Output:") and typed(mine):
            compared += 1
            assert screen_lines(shown(mine)) == screen_lines(text)
    assert compared


# ----------------------------------------------------------------------------------------- the project's own recordings


def test_invalid_json_and_recovery(short_folder: Path, shared: Path) -> None:
    recorded = steps(recording(shared, "invalid-json.trajectory"))
    with OpenAIServer(saying(answers(recorded))) as server:
        run = play(short_folder, server, hello(short_folder))
    assert events(run.trajectory, run.ending) == expected(recorded, None)
    assert (run.result.reward, run.ending) == (1.0, "complete")
    same_screens(run.trajectory, recorded)


@pytest.mark.slow
def test_the_time_limit_of_a_run_of_long_commands(short_folder: Path, shared: Path) -> None:
    recorded = steps(recording(shared, "timeout.trajectory"))
    with OpenAIServer(saying(answers(recorded))) as server:
        run = play(short_folder, server, hello(short_folder, agent_sec=18.0), model={"timeout_sec": 60.0})
    assert run.ending == "deadline" and run.owner == ("agent", "deadline") and run.result.reward == 0.0
    assert events(run.trajectory, "stopped") == expected(recorded, None)
    same_screens(run.trajectory, recorded)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "-linear-history"])
def test_a_full_window_is_handed_over_in_three_steps(short_folder: Path, shared: Path, kind: str) -> None:
    name = f"context-summarization{kind}.trajectory"
    files = [recording(shared, name), *([recording(shared, f"{name}.cont-1")] if kind else [])]
    recorded = steps(*files)
    other = "context-summarization.trajectory.summarization-1-"
    summary = [last_message(recording(shared, other + part)) for part in SUMMARY_STEPS]
    with OpenAIServer(saying(answers(recorded, summary))) as server:
        run = play(short_folder, server, hello(short_folder), model={"context_tokens": 8_000})
    assert events(run.trajectory, run.ending) == expected(recorded, None)
    assert (run.result.reward, run.ending) == (1.0, "complete")
    assert purposes(run.trajectory) == list(SUMMARY_STEPS)
    asked = [roles(request) for request in server.requests]
    assert asked[:4] == ["u", "uau", "uauau", "uauauau"] and asked[5] == "u"
    # As many exchanges are unwound as the refused prompt says that the window is too small: two here, one there.
    assert asked[4] == "uau" and asked[6] == "uauau"
    # Terminus-2 sends user, user, assistant, user after the hand-over; neighbours of one role are joined here.
    assert asked[7:] == ["uau", "uauau", "uauauau", "uauauauau"]


# ------------------------------------------------------------------------------------------------ runs of a small model


def same_run(folder: Path, shared: Path, name: str) -> None:
    index = json.loads((shared / "data" / "trajectories" / "terminus2_qwen" / "index.json").read_text())
    entry = next(one for one in index if one["file"] == f"{name}.trajectory.json")
    recorded = steps(shared / "data" / "trajectories" / "terminus2_qwen" / entry["file"])
    with OpenAIServer(saying(answers(recorded))) as server:
        run = play(folder, server, shared / "data" / "tasks" / entry["task"], max_turns=QWEN_TURNS)
    assert events(run.trajectory, run.ending) == expected(recorded, QWEN_TURNS)
    assert run.result.reward == entry["reward"]
    assert run.result.steps[0].turns == entry["turns"] == len(server.requests)


def test_a_run_of_a_small_model(short_folder: Path, shared: Path) -> None:
    same_run(short_folder, shared, "move-logs.2")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(23))
def test_every_run_of_a_small_model(short_folder: Path, shared: Path, number: int) -> None:
    files = sorted((shared / "data" / "trajectories" / "terminus2_qwen").glob("*.trajectory.json"))
    same_run(short_folder, shared, files[number].name.removesuffix(".trajectory.json"))
