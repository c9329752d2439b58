"""A model service that fails, and caps that are reached, through the whole engine."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from support.openai_server import OpenAIServer, Reply, Script
from support.scripted_run import GREETING, NAME, QUICK, WRITE, Run, greeting, play, say, solved
from support.usable import usable

from modularrsi.cli.app import main
from modularrsi.errors import UserError
from modularrsi.runs.audit import audit

BUSY = Reply(status=429, headers={"Retry-After": "1"}, error="slow down")
DOWN = Reply(status=503, error="no capacity")


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    usable("bubblewrap")


def cli(folder: Path, *arguments: str) -> int:
    """Run the command line in this process; its exit code."""
    with mock.patch("sys.argv", ["modularrsi", *arguments]), mock.patch.dict(
        os.environ, {"MODULARRSI_SCRATCH": str(folder)}
    ):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def arguments(folder: Path, server: OpenAIServer, *more: str, retries: int = 1) -> list[str]:
    models = folder / "models.toml"
    models.write_text(
        f'[models.solver]\nmodel = "m"\nbase_url = "{server.url}"\nmax_output_tokens = 500\nretries = {retries}\n'
        f"api_key_env = \"SCRIPTED_KEY\"\n"
    )
    return [
        "run", str(GREETING), "--models", str(models), "--sandbox", "bubblewrap", "--runs-dir", str(folder / "runs"),
        "--run", NAME, "--json", *more,
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------- faults that pass


def passes(run: Run, server: OpenAIServer, attempts: int) -> None:
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)
    assert len(server.requests) == 2 + attempts and server.generated == 2
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(set(keys[: attempts + 1])) == 1 and len(set(keys)) == 2, "all attempts of a call have one key"
    assert len(run.heard.events) == attempts, "whoever watches hears of each attempt that failed"
    assert run.result.steps[0].usage["calls"] == 2


def test_a_rate_limit_is_waited_out_for_as_long_as_the_service_says(short_folder: Path) -> None:
    with OpenAIServer([BUSY, *solved()]) as server:
        run = play(short_folder, server)
    passes(run, server, 1)
    assert "rate_limit, next attempt in 1.0 s" in run.heard.events[0]
    assert server.requests[1].at - server.requests[0].at >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [Reply(status=500, error="oops"), Reply(raw="<html>bad gateway"), Reply(choices=[])],
    ids=["500", "html", "no choice"],
)
def test_a_fault_of_the_service_passes_unseen_by_the_agent(short_folder: Path, fault: Reply) -> None:
    with OpenAIServer([fault, *solved()]) as server:
        run = play(short_folder, server)
    passes(run, server, 1)


@pytest.mark.slow
def test_a_reply_that_was_cut_off_on_the_way_is_paid_once(short_folder: Path) -> None:
    first, second = solved()
    with OpenAIServer([replace(first, cut=40), second]) as server:
        run = play(short_folder, server)
    passes(run, server, 1)
    assert server.repeats == 1


def test_a_hang_is_given_up_and_asked_again(short_folder: Path) -> None:
    with OpenAIServer([Reply(hang=True), *solved()]) as server:
        run = play(short_folder, server, model={"timeout_sec": 1.0})
    passes(run, server, 1)
    assert "timeout" in run.heard.events[0]


# ----------------------------------------------------------------------------------------------- a service that is down


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_a_service_that_cannot_be_reached_leaves_the_rollout_unscored(short_folder: Path) -> None:
    run = play(short_folder, f"http://127.0.0.1:{free_port()}/v1")
    assert run.result.reward is None and run.owner == ("model_service", "server_error")
    assert run.report.mean_reward is None and run.report.unscored == 1 and run.report.complete
    assert audit(run.folder) == []


def test_a_service_that_fails_half_way_leaves_the_rollout_unscored(short_folder: Path) -> None:
    with OpenAIServer(Script([say(WRITE), DOWN], then="repeat")) as server:
        run = play(short_folder, server, attempts=1)
    assert run.result.reward is None, "the file is right, but the agent was not let finish"
    assert run.owner == ("model_service", "server_error")
    assert len(server.requests) == 1 + QUICK["retries"] + 1
    last = run.trajectory["steps"][-1]
    assert last["source"] == "system" and "no capacity" in last["message"]
    assert run.trajectory["extra"]["ending"] == run.ending == "model_unavailable"


@pytest.mark.slow
def test_the_time_that_a_failing_service_takes_is_not_the_agents(short_folder: Path) -> None:
    task = greeting(short_folder, agent_sec=4.0)
    with OpenAIServer(Script([Reply(status=503, headers={"Retry-After": "3"})] * 2 + solved())) as server:
        run = play(short_folder, server, task, model={"retries": 3})
    assert (run.result.reward, run.ending, run.owner) == (1.0, "complete", None)


@pytest.mark.slow
def test_a_service_that_outlasts_the_time_limit_is_still_the_services_fault(short_folder: Path) -> None:
    task = greeting(short_folder, agent_sec=3.0)
    down = Reply(status=503, headers={"Retry-After": "2"}, error="no capacity")
    with OpenAIServer(Script([say("echo\n"), down], then="repeat")) as server:
        run = play(short_folder, server, task, model={"retries": 2})
    assert run.result.reward is None and run.owner == ("model_service", "server_error")


@pytest.mark.slow
def test_unscored_rollouts_are_asked_again_when_they_are_retried(short_folder: Path) -> None:
    with OpenAIServer([say(WRITE), DOWN, DOWN, *solved()]) as server:
        first = play(short_folder, server)
        assert first.result.reward is None and len(server.requests) == 3
        again = play(short_folder, server, retry_unscored=True)
    assert (again.result.reward, again.ending, again.owner) == (1.0, "complete", None)
    assert server.generated == 3, "a new rollout: it does not go on where a half one was left"
    assert audit(again.folder) == []


@pytest.mark.slow
def test_exit_code_of_a_run_with_unscored_rollouts(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-scripted-key")
    with OpenAIServer(Script([DOWN], then="repeat")) as server:
        assert cli(short_folder, *arguments(short_folder, server, "-k", "2", retries=0)) == 1
        assert len(server.requests) == 2


# ---------------------------------------------------------------------------------------------------------- a wrong key


def test_a_key_that_is_refused_stops_the_run_with_one_error(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-wrong-key-000000")
    with OpenAIServer(Script(solved(), then="cycle"), key="sk-right-key-000000") as server:
        words = arguments(short_folder, server, "-k", "2", "-n", "1", retries=4)
        assert cli(short_folder, *words) == 2
        said = capsys.readouterr()
        errors = [line for line in said.err.splitlines() if line.startswith("error:")]
        assert len(errors) == 1
        assert "401" in errors[0] and "SCRIPTED_KEY" in errors[0] and "sk-wrong" not in said.err + said.out
        assert not server.requests and said.err.count("HTTP 401") <= 2, "one attempt, and no other rollout"
        monkeypatch.setenv("SCRIPTED_KEY", "sk-right-key-000000")
        assert cli(short_folder, *words) == 0, "the same command goes on, with the right key"
    assert len(server.requests) == 4


@pytest.mark.slow
def test_a_refused_key_leaves_nothing_scored(short_folder: Path) -> None:
    with OpenAIServer(key="sk-right-key-000000") as server:
        with pytest.raises(UserError, match="401"):
            play(short_folder, server, attempts=3, concurrency=1)
    # The rollout is not finished, so it is neither scored nor unscored: it runs when the key is right.


# ----------------------------------------------------------------------------------------------------------------- caps


def test_a_cap_on_calls_stops_the_run_and_a_higher_one_goes_on(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-scripted-key")
    turns = [say("echo one\n"), *solved()]
    with OpenAIServer(Script(turns, then="cycle")) as server:
        words = arguments(short_folder, server, "-k", "2", "-n", "1")
        assert cli(short_folder, *words, "--max-calls", "4") == 3
        assert len(server.requests) == 4, "one rollout of three turns, and one turn of the second"
        assert "cap" in capsys.readouterr().err
        assert cli(short_folder, *words, "--max-calls", "5") == 3
        assert cli(short_folder, *words, "--max-calls", "6") == 0
        assert cli(short_folder, *words) == 0, "a finished run has nothing left to do"
        keys = [request.headers["idempotency-key"] for request in server.requests]
        assert len(keys) == len(set(keys)) == server.generated == 6, "no recorded call is paid again"
    assert audit(short_folder / "runs" / NAME) == []


@pytest.mark.slow
def test_a_cap_on_tokens_counts_the_worst_case_before_a_call(short_folder: Path) -> None:
    counted = {"prompt_tokens": 2_000, "completion_tokens": 100, "total_tokens": 2_100}
    turns = [say("echo one\n", usage=counted), say(WRITE, complete=True, usage=counted), say(complete=True)]
    model = {"max_output_tokens": 300, "context_tokens": 100_000}
    with OpenAIServer(turns) as server:
        first = play(short_folder, server, model=model, max_tokens=6_000)
        assert not first.report.complete and first.report.planned == 1 and first.report.scored == 0
        made = len(server.requests)
        assert 0 < made < 3 and server.generated == made
        second = play(short_folder, server, model=model, max_tokens=90_000)
        assert len(server.requests) == 3
    assert (second.result.reward, second.ending, second.owner) == (1.0, "complete", None)
    assert second.report.complete and second.result.steps[0].usage["calls"] == 3
