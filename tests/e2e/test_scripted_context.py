"""A full window and a reply that was cut off, through the whole engine.

The order of what is tried is Terminus-2's: three steps, a short summary, no model at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.openai_server import OpenAIServer, Reply, Request, Script, overflow
from support.scripted_run import (
    WRITE,
    XML,
    agent_steps,
    play,
    purposes,
    roles,
    say,
    say_xml,
    shown,
    solved,
    sources,
    told,
    typed,
)
from support.usable import usable

INSTRUCTION = "Create the file /app/greeting.txt."
SUMMARY, QUESTIONS, ANSWERS, SHORT = "SUMMARY-TEXT", "QUESTIONS-TEXT", "ANSWERS-TEXT", "SHORT-TEXT"
HANDOVER = [SUMMARY, QUESTIONS, ANSWERS]

# Two of these fill a window of 2,600 tokens, one does not.
LONG = ("seq 1 400\n", 0.3)
WINDOW = {"context_tokens": 2_600}


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    usable("bubblewrap")


def kind_of(request: Request) -> str:
    """What a request asks for, from its own words."""
    last = request.last
    marks = {
        "summary": "Another agent takes over from you now",
        "questions": "You take over a task that another agent has begun",
        "answers": "The next agent asks the following",
        "short_summary": "Work on this task has to be carried on at once",
    }
    return next((kind for kind, mark in marks.items() if mark in last), "turn")


def kinds(server: OpenAIServer) -> list[str]:
    return [kind_of(request) for request in server.requests]


# ------------------------------------------------------------------------------------------------ before it is too late


def test_a_window_that_fills_is_handed_over_in_three_steps(short_folder: Path) -> None:
    script = [say(LONG), say(LONG), *HANDOVER, say(WRITE, complete=True), say(complete=True)]
    with OpenAIServer(script) as server:
        run = play(short_folder, server, model=WINDOW)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    assert kinds(server) == ["turn", "turn", "summary", "questions", "answers", "turn", "turn"]
    first, second, summary, questions, answers, after, _ = server.requests
    assert (roles(summary), roles(questions), roles(answers), roles(after)) == ("uauau", "u", "uauauau", "uau")
    assert summary.body["messages"][:3] == second.body["messages"]
    assert INSTRUCTION in summary.last
    assert SUMMARY in questions.last and INSTRUCTION in questions.last and "root@greeting" in questions.last
    assert first.last not in told(questions), "the next agent has seen nothing of the conversation"
    assert QUESTIONS in answers.last and answers.body["messages"][-2]["content"] == SUMMARY
    assert after.body["messages"][0]["content"].startswith(first.last)
    assert after.body["messages"][1]["content"] == QUESTIONS
    assert ANSWERS in after.last and "\n400\n" in after.last, "the last observation is not lost"
    trajectory = run.trajectory
    assert purposes(trajectory) == ["summary", "questions", "answers"]
    assert sources(trajectory) == ["user", "agent", "agent", "system", "user", "agent", "agent"]
    assert [sub["steps"][-1]["message"] for sub in trajectory["subagent_trajectories"]] == HANDOVER
    assert trajectory["final_metrics"]["total_prompt_tokens"] == run.report.prompt_tokens
    assert run.result.steps[0].usage["calls"] == server.generated == trajectory["extra"]["model_calls"] == 7
    assert run.result.steps[0].turns == 4


@pytest.mark.slow
def test_a_claim_outlives_the_hand_over(short_folder: Path) -> None:
    with OpenAIServer([say(LONG), say(WRITE, LONG, complete=True), *HANDOVER, say(complete=True)]) as server:
        run = play(short_folder, server, model=WINDOW)
    assert (run.result.reward, run.ending, len(server.requests)) == (1.0, "complete", 6)
    assert "Are you sure" in server.requests[-1].last


@pytest.mark.slow
def test_a_summary_that_fails_is_noted_and_the_run_goes_on(short_folder: Path) -> None:
    refusal = Reply(status=400, error="not today")
    script = Script([say(LONG), say(WRITE, LONG), say("clear\n")], rules=[("Another agent takes over", refusal)])
    with OpenAIServer(script) as server:
        run = play(short_folder, server, model=WINDOW, max_turns=3)
    assert kinds(server) == ["turn", "turn", "summary", "turn"]
    assert (run.result.reward, run.ending, run.owner) == (1.0, "max_turns", None)
    notes = [note for step in agent_steps(run.trajectory) for note in _notes(step)]
    assert any("the summary failed" in note and "not today" in note for note in notes)


def _notes(step: dict[str, Any]) -> list[str]:
    extra = step.get("extra", {})
    return [*extra.get("notes", []), *extra.get("before", {}).get("notes", [])]


# ------------------------------------------------------------------------------------------------------ when it is full


class Refusing:
    """A service whose window is full from the `at`-th turn on for one request, and for the kinds named."""

    def __init__(self, replies: list[Reply | str], refused: tuple[str, ...] = (), at: int = 2) -> None:
        self._replies, self._refused, self._at = list(replies), refused, at
        self._turns = 0

    def __call__(self, request: Request) -> Reply | str:
        kind = kind_of(request)
        self._turns += kind == "turn"
        if (kind == "turn" and self._turns == self._at) or kind in self._refused:
            return overflow()
        texts = {"summary": SUMMARY, "questions": QUESTIONS, "answers": ANSWERS, "short_summary": SHORT}
        return texts.get(kind) or self._replies.pop(0)


TIERS: dict[str, tuple[tuple[str, ...], list[str], list[str]]] = {
    "three steps": ((), ["summary", "questions", "answers"], [ANSWERS]),
    "three steps fail at the answers": (
        ("answers",), ["summary", "questions", "answers", "short_summary"], [INSTRUCTION, SHORT]
    ),
    "a short summary": (("summary",), ["summary", "short_summary"], [INSTRUCTION, SHORT]),
    "no model": (("summary", "short_summary"), ["summary", "short_summary"], [INSTRUCTION, "screen", "root@greeting"]),
}  # fmt: skip


# Each tier is tried in CI; the last one, which is reached through the others, always.
ALWAYS = "no model"
PARAMETERS = [pytest.param(tier, marks=() if tier == ALWAYS else pytest.mark.slow) for tier in TIERS]


@pytest.mark.parametrize("tier", PARAMETERS)
def test_a_refused_prompt_is_replaced_by_the_richest_hand_over_that_works(short_folder: Path, tier: str) -> None:
    refused, asked, told_then = TIERS[tier]
    with OpenAIServer(Refusing([say("echo one\n"), *solved()], refused)) as server:
        run = play(short_folder, server, max_turns=3)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    assert kinds(server) == ["turn", "turn", *asked, "turn", "turn"]
    after = server.requests[2 + len(asked)]
    assert all(text in after.last for text in told_then)
    assert after.body["messages"][0]["content"].startswith(server.requests[0].last)
    assert "echo one" in after.last, "the observation that did not fit is handed over, as far as it fits"
    trajectory = run.trajectory
    assert purposes(trajectory) == asked
    refusals = [step for step in trajectory["steps"] if "context_overflow" in step["message"]]
    assert len(refusals) == 1
    assert run.result.steps[0].turns == 3, "a refused request is no turn"
    assert run.result.steps[0].usage["calls"] == server.generated, "refused requests are not in the totals"


def everything_overflows(request: Request) -> Reply:
    return overflow()


def all_after_the_first(request: Request) -> Reply | str:
    return say(WRITE) if request.number == 0 else overflow()


@pytest.mark.parametrize(
    ("policy", "reward", "most"),
    [(everything_overflows, 0.0, 6), pytest.param(all_after_the_first, 1.0, 13, marks=pytest.mark.slow)],
    ids=["all", "later"],
)
def test_overflow_for_ever_ends_the_run_and_the_agent_owns_it(
    short_folder: Path, policy: Callable[[Request], Reply], reward: float, most: int
) -> None:
    with OpenAIServer(policy) as server:
        run = play(short_folder, server)
    assert (run.result.reward, run.ending) == (reward, "context_overflow")
    assert run.owner == ("agent", "context_overflow")
    assert len(server.requests) <= most
    assert run.report.complete and run.report.scored == 1


# ----------------------------------------------------------------------------------------------------- cut-off replies

COUNTED = {"prompt_tokens": 1_000, "completion_tokens": 70, "total_tokens": 1_070}


def test_a_json_reply_that_was_cut_off_is_asked_for_again_in_pieces(short_folder: Path) -> None:
    half = say(WRITE).text[:-30]
    script = [Reply(half, finish_reason="length", usage=COUNTED), *solved()]
    with OpenAIServer(script) as server:
        run = play(short_folder, server, model={"max_output_tokens": 70})
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    again = server.requests[1]
    assert roles(again) == "uau" and again.body["messages"][1]["content"] == half
    assert "cut off at the limit of 70 tokens" in again.last and "NONE of its actions was run" in again.last
    first = agent_steps(run.trajectory)[0]
    assert first["message"] == half and typed(first) == []
    assert first["extra"]["finish_reason"] == "length"
    assert first["metrics"]["completion_tokens"] == 70
    completion = sum(step["metrics"]["completion_tokens"] for step in agent_steps(run.trajectory))
    assert run.report.completion_tokens == completion >= 70 and run.result.steps[0].usage["calls"] == 3


def test_an_xml_response_that_was_whole_when_it_was_cut_off_is_used(short_folder: Path) -> None:
    babbling = say_xml(WRITE, complete=True).text + "\nAnd now I will explain what I"
    script = [Reply(babbling, finish_reason="length", usage=COUNTED), say_xml(complete=True)]
    with OpenAIServer(script) as server:
        run = play(short_folder, server, composition=XML)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    assert len(server.requests) == 2 and "Are you sure" in server.requests[1].last
    whole = babbling[: babbling.index("</response>") + len("</response>")]
    assert server.requests[1].body["messages"][1]["content"] == whole, "the rest is left out of the history"
    first = agent_steps(run.trajectory)[0]
    assert first["message"] == babbling and typed(first) == [WRITE[0]]
    assert first["extra"]["kept_differently"] is True
    assert run.trajectory["final_metrics"]["total_completion_tokens"] > 70


@pytest.mark.slow
def test_an_xml_response_that_was_not_whole_is_asked_for_again(short_folder: Path) -> None:
    half = say_xml(WRITE).text.split("</commands>")[0]
    script = [Reply(half, finish_reason="length"), say_xml(WRITE, complete=True), say_xml(complete=True)]
    with OpenAIServer(script) as server:
        run = play(short_folder, server, composition=XML)
    assert (run.result.reward, len(server.requests)) == (1.0, 3)
    assert "cut off at the longest reply the model may give" in server.requests[1].last
    assert typed(agent_steps(run.trajectory)[0]) == []
    assert shown(agent_steps(run.trajectory)[0]) == server.requests[1].last


@pytest.mark.slow
def test_replies_cut_off_for_ever_end_the_run(short_folder: Path) -> None:
    with OpenAIServer(Script([Reply("{", finish_reason="length")], then="repeat")) as server:
        run = play(short_folder, server)
    assert (run.result.reward, run.ending, len(server.requests)) == (0.0, "faults", 10)
    assert run.result.steps[0].usage["calls"] == 10
