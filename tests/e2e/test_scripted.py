"""The seed harness through the whole engine, against a scripted model: replies, completion, limits, prompts.

What a service or a full window does to a run stands in `test_scripted_service.py` and `test_scripted_context.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.openai_server import OpenAIServer, Reply, Script
from support.scripted_run import (
    WRITE,
    XML,
    agent_steps,
    greeting,
    play,
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

TASKS = Path(__file__).parent.parent / "tasks"
NONSENSE = "I am going to write the file now."
ARE_YOU_SURE = "Are you sure that the task is done?"


@pytest.fixture(autouse=True)
def _bubblewrap(request: pytest.FixtureRequest) -> None:
    usable("docker" if request.node.get_closest_marker("docker") else "bubblewrap")


# ------------------------------------------------------------------------------------------------- replies, completion


def unreadable_then_solved(folder: Path, script: Sequence[Reply | str], noun: str, **fields: Any) -> None:
    with OpenAIServer(script) as server:
        run = play(folder, server, **fields)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    assert [roles(request) for request in server.requests] == ["u", "uau", "uauau"], "and no system message"
    assert "MCP" not in server.requests[0].last and "skill" not in server.requests[0].last
    assert f"send a proper {noun}." in server.requests[1].last
    assert "nothing of it was run" in server.requests[1].last
    assert ARE_YOU_SURE in server.requests[2].last
    trajectory = run.trajectory
    assert sources(trajectory) == ["user", "agent", "agent", "agent"]
    first, second, third = agent_steps(trajectory)
    assert first["message"] == NONSENSE and typed(first) == []
    assert shown(first) == server.requests[1].last
    assert typed(second) == [WRITE[0]] and ARE_YOU_SURE in shown(second)
    assert third["extra"]["observation"].startswith("the last reading")
    assert trajectory["extra"]["ending"] == "complete" and trajectory["extra"]["model_calls"] == 3
    assert trajectory["final_metrics"]["total_prompt_tokens"] == run.report.prompt_tokens
    assert run.result.steps[0].turns == 3


def test_an_unreadable_reply_then_recovery_then_double_confirmation(short_folder: Path) -> None:
    unreadable_then_solved(short_folder, [NONSENSE, *solved()], "JSON response")


def test_the_same_with_the_xml_grammar(short_folder: Path) -> None:
    script = [Reply(NONSENSE), say_xml(WRITE, complete=True), say_xml(complete=True)]
    unreadable_then_solved(short_folder, script, "response", composition=XML)


@pytest.mark.docker
def test_the_same_in_docker(short_folder: Path) -> None:
    unreadable_then_solved(short_folder, [NONSENSE, *solved()], "JSON response", sandbox="docker")


def test_a_turn_without_the_claim_takes_an_early_completion_back(short_folder: Path) -> None:
    script = [say("echo early\n", complete=True), say("echo on\n"), say(WRITE, complete=True), say(complete=True)]
    with OpenAIServer(script) as server:
        run = play(short_folder, server)
    assert (run.result.reward, run.ending) == (1.0, "complete")
    asked = [ARE_YOU_SURE in request.last for request in server.requests]
    assert asked == [False, True, False, True], "the second claim is not the confirmation of the first"
    assert [typed(step) for step in agent_steps(run.trajectory)] == [["echo early\n"], ["echo on\n"], [WRITE[0]], []]


@pytest.mark.slow
def test_an_unreadable_reply_does_not_take_a_completion_back(short_folder: Path) -> None:
    with OpenAIServer([say(WRITE, complete=True), NONSENSE, say("echo last\n", complete=True)]) as server:
        run = play(short_folder, server)
    assert (run.result.reward, run.ending, len(server.requests)) == (1.0, "complete", 3)
    assert typed(agent_steps(run.trajectory)[-1]) == ["echo last\n"], "the confirmation's own commands are run"


@pytest.mark.slow
def test_warnings_come_before_the_observation_and_never_with_the_question(short_folder: Path) -> None:
    chatty = Reply("Well. " + say("echo hi\n").text)
    sure = Reply("Done. " + say(WRITE, complete=True).text)
    with OpenAIServer([chatty, sure, say(complete=True)]) as server:
        run = play(short_folder, server)
    assert run.result.reward == 1.0
    assert "with warnings" in server.requests[1].last.split("New Terminal Output:")[0]
    assert "with warnings" not in server.requests[2].last


# --------------------------------------------------------------------------------------------------------------- limits


def test_format_errors_without_end_are_ended(short_folder: Path) -> None:
    with OpenAIServer(Script([NONSENSE], then="repeat")) as server:
        run = play(short_folder, server)
    assert (run.result.reward, run.ending, run.owner) == (0.0, "faults", ("agent", "faults"))
    assert len(server.requests) == 10
    assert all(typed(step) == [] for step in agent_steps(run.trajectory))


def test_the_last_turn_ends_a_rollout_without_failure_and_it_is_scored(short_folder: Path) -> None:
    with OpenAIServer([say(WRITE), say("echo 2\n"), say("echo 3\n")]) as server:
        run = play(short_folder, server, max_turns=2)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "max_turns", None)
    assert len(server.requests) == 2
    last = agent_steps(run.trajectory)[-1]
    assert typed(last) == ["echo 2\n"] and "echo 2" in shown(last)


def test_the_time_limit_ends_a_rollout_and_it_is_scored(short_folder: Path) -> None:
    task = greeting(short_folder, agent_sec=3.0)
    with OpenAIServer([say(WRITE), say(("sleep 30\n", 30.0)), say(complete=True)]) as server:
        run = play(short_folder, server, task)
    assert (run.result.reward, run.ending, run.owner) == (1.0, "deadline", ("agent", "deadline"))
    assert run.report.scored == 1 and len(server.requests) <= 2
    assert run.trajectory["extra"]["ending"] == "deadline"


# --------------------------------------------------------------------------------------------------------------- prompt

MCP = """skills_dir = "/skills"
[[environment.mcp_servers]]
name = "library"
transport = "streamable-http"
url = "http://library:8000/mcp"
[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "serve"
args = ["--quiet", "all"]
"""
SKILL = "---\nname: greet\ndescription: How to greet <people> & worlds\n---\nSay hello.\n"


def test_mcp_servers_and_skills_reach_the_first_prompt(short_folder: Path) -> None:
    files = {"environment/skills/greet/SKILL.md": SKILL}
    task = greeting(short_folder, more=MCP, files=files)
    with OpenAIServer(solved()) as server:
        run = play(short_folder, server, task)
    assert run.result.reward == 1.0
    prompt = server.requests[0].last
    assert "- library: streamable-http transport, url: http://library:8000/mcp" in prompt
    assert "- local: stdio transport, command: serve --quiet all" in prompt
    assert "<name>greet</name>" in prompt and "How to greet &lt;people&gt; &amp; worlds" in prompt
    assert "<location>/skills/greet/SKILL.md</location>" in prompt
    assert prompt.index("MCP Servers:") < prompt.index("<available_skills>") < prompt.index("Hello, world!")
    assert run.trajectory["steps"][0]["message"] == prompt
    assert prompt.endswith("Current Terminal Screen:\nroot@hello:/app#")


# ----------------------------------------------------------------------------------------------------- multi-step tasks

KEY = ("awk '{s += $1} END {print s}' /app/numbers.txt > /app/key\n", 0.6)
LOCK = ("rev /app/key > /app/lock\n", 0.6)


def test_each_step_of_a_task_is_a_conversation_of_its_own(short_folder: Path) -> None:
    script = [say(KEY, complete=True), say(complete=True), say(LOCK, complete=True), say(complete=True)]
    with OpenAIServer(script) as server:
        run = play(short_folder, server, TASKS / "gated-steps")
    assert (run.result.reward, run.owner) == (1.0, None)
    assert [(step.name, step.reward, step.ending) for step in run.result.steps] == [
        ("key", 1.0, "complete"), ("lock", 1.0, "complete")
    ]  # fmt: skip
    assert [roles(request) for request in server.requests] == ["u", "uau", "u", "uau"]
    assert "sum of the numbers" in server.requests[0].last
    assert "reversed" in server.requests[2].last and "sum of the numbers" not in told(server.requests[2])
    first, second = run.trajectories
    assert first["session_id"] != second["session_id"]
    assert [typed(step) for step in agent_steps(first)] == [[KEY[0]], []]
    assert [typed(step) for step in agent_steps(second)] == [[LOCK[0]], []]


@pytest.mark.slow
def test_a_step_below_its_least_reward_ends_the_task(short_folder: Path) -> None:
    with OpenAIServer([say(complete=True), say(complete=True)]) as server:
        run = play(short_folder, server, TASKS / "gated-steps")
    assert run.result.reward == 0.0 and [step.name for step in run.result.steps] == ["key"]
    assert len(server.requests) == 2
