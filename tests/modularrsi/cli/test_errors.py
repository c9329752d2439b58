"""What a newcomer's first mistakes are answered with: one sentence, the right exit code, no traceback."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from support.openai_server import OpenAIServer, Reply
from support.taskfolders import write_task
from support.usable import usable

from modularrsi.cli import main
from modularrsi.errors import StoreError
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.runs.execute import Machinery, execute
from modularrsi.runs.state import RunState
from modularrsi.store import RunStore
from modularrsi.tasks import load_task

ROOT = Path(__file__).resolve().parents[3]
GREETING = ROOT / "tests/tasks/greeting"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line in this process; starting an interpreter for each would take most of the time."""

    def call(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["modularrsi", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Done(int(end.value.code or 0), printed.out, printed.err)

    return call


def refused(done: Done) -> str:
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("flag", ["--library", "--composition", "--model", "--models"])
def test_an_agent_that_runs_no_harness_takes_none(cli: Cli, tmp_path: Path, flag: str) -> None:
    said = refused(cli("run", GREETING, "--agent", "nop", flag, "x", "--runs-dir", tmp_path / "runs"))
    assert said == f"error: {flag} is for --agent harness; --agent nop runs no harness and no model"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [((), "--api-key-env"), (("--base-url", "http://127.0.0.1:9/v1", "--max-cost", "1"), "--max-output-tokens")],
)
def test_a_missing_setting_of_the_model_is_named_as_an_option(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], option: str
) -> None:
    done = cli("run", GREETING, "-m", "gpt-5-mini", *arguments, "--runs-dir", tmp_path / "runs")
    assert option in refused(done)


def test_show_names_the_runs_of_the_folder_that_holds_them(cli: Cli, tmp_path: Path) -> None:
    usable("bubblewrap")
    done = cli("run", GREETING, "--agent", "nop", "--sandbox", "bubblewrap", "--runs-dir", tmp_path, "--run", "first")
    assert done.returncode == 0, done.stderr
    assert refused(cli("show", tmp_path)).endswith(f"runs in it: {tmp_path / 'first'}")


def test_a_fix_is_printed_unbroken(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there to be copied, and DOCKER_HOST makes a row with a fix wherever the tests run."""
    monkeypatch.setenv("DOCKER_HOST", "ssh://somewhere")
    monkeypatch.setenv("COLUMNS", "40")
    done = cli("doctor")
    lines = [line for line in done.stdout.splitlines() if line.lstrip().startswith("-> unset DOCKER_HOST")]
    assert lines and all(line.endswith("Engine") for line in lines)


def test_an_interrupted_run_says_how_to_go_on(short_folder: Path) -> None:
    usable("bubblewrap")
    with OpenAIServer(lambda request: Reply(hang=True)) as server:
        command = [
            sys.executable, "-m", "modularrsi", "run", str(GREETING), "-m", "m", "--base-url", server.url,
            "--sandbox", "bubblewrap", "--runs-dir", str(short_folder / "runs"),
        ]  # fmt: skip
        environment = {**os.environ, "MODULARRSI_SCRATCH": str(short_folder)}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as child:
            try:
                server.wait_for(1)
                child.send_signal(signal.SIGINT)
                _, said = child.communicate(timeout=60)
            finally:
                child.kill()
    assert child.returncode == 130 and "Traceback" not in said, said
    assert said.strip().splitlines()[-1] == "interrupted; the same command goes on where it stopped"


class FullDisk:
    """A store in which nothing can be written any more."""

    def append(self, kind: str, data: Any, durable: bool = False) -> None:
        raise StoreError("events.jsonl: cannot write: No space left on device")


def test_a_full_disk_in_several_rollouts_at_once_is_one_error(tmp_path: Path) -> None:
    task = load_task(GREETING)
    plans = [RolloutPlan(f"greeting/{n}", task, n, tmp_path / str(n)) for n in (1, 2)]
    machinery = Machinery(cast(Any, None), cast(Any, None), cast(Any, None), concurrency=2)
    with pytest.raises(StoreError, match="No space left"):
        asyncio.run(execute(cast(RunStore, FullDisk()), RunState(), plans, machinery))


def test_what_was_not_run_is_open_and_not_unscored(
    cli: Cli, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable("bubblewrap")
    monkeypatch.setenv("MODULARRSI_SCRATCH", str(short_folder))
    with OpenAIServer(["{}"]) as server:
        done = cli(
            "run", GREETING, "-m", "m", "--base-url", server.url, "--max-calls", "1", "--attempts", "2",
            "--concurrency", "1", "--sandbox", "bubblewrap", "--runs-dir", short_folder / "runs",
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("greeting")] == [
        ["greeting", "open", "open", "open"]
    ]


def test_a_service_that_wants_a_key_and_gets_none_is_answered_with_the_option(
    cli: Cli, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable("bubblewrap")
    monkeypatch.setenv("MODULARRSI_SCRATCH", str(short_folder))
    with OpenAIServer(["{}"], key="another-key") as server:
        done = cli(
            "run", GREETING, "-m", "m", "--base-url", server.url, "--sandbox", "bubblewrap",
            "--runs-dir", short_folder / "runs",
        )  # fmt: skip
    assert "name the key's environment variable (api_key_env)" in refused(done)


def test_a_missing_terminal_is_said_before_anything_starts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("run", GREETING, "-m", "m", "--base-url", "http://127.0.0.1:9/v1", "--runs-dir", tmp_path / "runs")
    assert "tmux is not installed; sudo apt-get install tmux" in refused(done)
    assert not (tmp_path / "runs").exists()


def test_what_is_odd_about_many_tasks_is_said_once(cli: Cli, tmp_path: Path) -> None:
    usable("bubblewrap")
    for name in ("one", "two", "three"):
        write_task(tmp_path / "tasks" / name, "[agnet]\n", files={"tests/test.sh": ""})
    done = cli("run", tmp_path / "tasks", "--agent", "nop", "--sandbox", "bubblewrap", "--runs-dir", tmp_path / "runs")
    lines = done.stderr.splitlines()
    assert "one and 2 more: agnet: unknown, ignored; did you mean agent?" in lines
    assert sum("tests/test.sh is missing" in line for line in lines) == 3, "each names its own file"
    assert done.returncode == 1


@pytest.mark.parametrize("place", ["file/below", "/proc/scratch"])
def test_a_scratch_folder_that_cannot_be_made_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODULARRSI_SCRATCH", str(tmp_path / place))
    done = cli("run", GREETING, "--agent", "oracle", "--runs-dir", tmp_path / "runs")
    assert done.returncode == 2
    assert "MODULARRSI_SCRATCH" in done.stderr


def test_a_relative_scratch_folder_serves(cli: Cli, short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usable("bubblewrap")
    monkeypatch.chdir(short_folder)
    monkeypatch.setenv("MODULARRSI_SCRATCH", "scratch")
    done = cli("run", GREETING, "--agent", "oracle", "--sandbox", "bubblewrap", "--runs-dir", "runs")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [("--timeout-multiplier", "inf"), ("--attempts", "99999999")])
def test_numbers_without_bounds_are_refused(cli: Cli, tmp_path: Path, options: tuple[str, str]) -> None:
    done = cli("run", GREETING, "--agent", "oracle", "--runs-dir", tmp_path / "runs", *options)
    assert done.returncode == 2
    assert options[0] in done.stderr
