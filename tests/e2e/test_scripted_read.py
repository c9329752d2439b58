"""Reading and checking a run that a scripted model made: `show`, `verify`, and what was changed by hand."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from support.openai_server import OpenAIServer, Reply
from support.scripted_run import NAME, WRITE, play, say
from support.usable import usable

from modularrsi.cli.app import main

HOSTILE = ("printf '\\033]0;owned\\007\\033[2J\\n'\n", 0.3)


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run with an unreadable reply, a hostile screen and a completion. Never changed: tests copy it."""
    usable("bubblewrap")
    folder = Path("/tmp") / f"mr-read-{os.getpid()}"
    folder.mkdir()
    script = [Reply("no \x1b[31mJSON"), say(HOSTILE), say(WRITE, complete=True, reasoning="hm"), say(complete=True)]
    try:
        with OpenAIServer(script) as server:
            run = play(folder, server)
        assert run.result.reward == 1.0
        yield run.folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / NAME))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str | Path) -> Said:
        code = 0
        with mock.patch("sys.argv", ["modularrsi", *map(str, words)]):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


# ----------------------------------------------------------------------------------------------------------------- show


def test_a_trajectory_is_shown_without_moving_the_readers_terminal(run: Path, cli: Any) -> None:
    said = cli("show", run / "greeting" / "1", "--full")
    assert said.code == 0
    assert "reward 1" in said.out and "ended: complete" in said.out
    for words in ("[1] user", "[2] agent", "could not be read", "$ printf 'Hello, world!", "Are you sure"):
        assert words in said.out
    assert "\x1b" not in said.out and "\x07" not in said.out


def test_one_step_is_shown_in_full(run: Path, cli: Any) -> None:
    said = cli("show", run / "greeting" / "1", "--step", "4")
    assert said.code == 0
    assert "[4] agent" in said.out and "[3] agent" not in said.out and "hm" in said.out
    missing = cli("show", run / "greeting" / "1", "--step", "40")
    assert missing.code == 2 and "no step 40" in missing.err and "1 to 5" in missing.err


def test_the_whole_trajectory_as_json(run: Path, cli: Any) -> None:
    said = cli("show", run / "greeting" / "1", "--json")
    shown = json.loads(said.out)
    assert said.code == 0 and shown["rollout"]["reward"] == 1.0
    (trajectory,) = shown["trajectories"]
    assert trajectory["schema_version"] == "ATIF-v1.8" and len(trajectory["steps"]) == 5
    assert trajectory["steps"][3]["reasoning_content"] == "hm"


def test_one_step_as_json(run: Path, cli: Any) -> None:
    (trajectory,) = json.loads(cli("show", run / "greeting" / "1", "--json", "--step", "4").out)["trajectories"]
    assert [step["step_id"] for step in trajectory["steps"]] == [4]
    missing = cli("show", run / "greeting" / "1", "--json", "--step", "6")
    assert (missing.code, missing.out) == (2, "") and "1 to 5" in missing.err


def test_a_trajectory_file_from_anywhere(run: Path, cli: Any, tmp_path: Path) -> None:
    (trajectory,) = json.loads(cli("show", run / "greeting" / "1", "--json").out)["trajectories"]
    file = tmp_path / "trajectory.json"
    file.write_text(json.dumps(trajectory))
    said = cli("show", file, "--step", "2")
    assert said.code == 0 and "[2] agent" in said.out


def test_a_run_and_what_is_not_in_it(run: Path, cli: Any) -> None:
    report = json.loads(cli("show", run, "--json").out)
    assert report["passed"] == 1 and report["rollouts"][0]["ending"] == "complete"
    said = cli("show", run / "greeting" / "2")
    assert said.code == 2 and "greeting/1" in said.err


# --------------------------------------------------------------------------------------------------------------- verify


def test_an_untouched_run_verifies(run: Path, cli: Any) -> None:
    said = cli("verify", run)
    assert (said.code, said.err) == (0, "") and "agree" in said.out
    assert json.loads(cli("verify", run, "--json").out) == {"simulated": False, "problems": []}


def changed(run: Path, old: str, new: str, where: str) -> None:
    """Replace in the one line of the log that holds `where`."""
    log = run / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    hits = [index for index, line in enumerate(lines) if where in line and old in line]
    assert hits
    lines[hits[0]] = lines[hits[0]].replace(old, new)
    log.write_text("".join(lines))


def test_a_reward_changed_by_hand(run: Path, cli: Any) -> None:
    changed(run, '"reward":1.0', '"reward":0.5', "rollout.finished")
    reported(cli("verify", run))


def test_a_changed_run_is_not_shown_as_if_it_were_whole(run: Path, cli: Any) -> None:
    changed(run, '"reward":1.0', '"reward":0.5', "rollout.finished")
    for words in (("show", run), ("show", run / "greeting" / "1", "--json")):
        said = cli(*words)
        assert said.code == 4 and said.out == "" and "Traceback" not in said.err
        assert "events.jsonl" in said.err


def test_a_reply_changed_by_hand(run: Path, cli: Any) -> None:
    changed(run, "Hello", "Jello", "call.done")
    reported(cli("verify", run))


def test_a_line_taken_out(run: Path, cli: Any) -> None:
    log = run / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3] + lines[4:]))
    reported(cli("verify", run))


def test_a_trajectory_changed_taken_away_or_cut_short(run: Path, cli: Any) -> None:
    (digest,) = [
        digest
        for line in (run / "events.jsonl").read_text().splitlines()
        for digest in json.loads(line)["data"].get("trajectory_blob", [])
    ]
    files = [path for path in (run / "blobs").rglob("*") if path.is_file()]
    (blob,) = [path for path in files if digest[:12] in "".join(path.parts[-3:])]
    blob.chmod(0o600)
    data = blob.read_bytes()
    for bad in (data[:-20], data[:40] + bytes([data[40] ^ 1]) + data[41:], b""):
        blob.write_bytes(bad)
        reported(cli("verify", run), digest[:8])
    blob.unlink()
    reported(cli("verify", run), digest[:8])


def reported(said: Said, *words: str) -> None:
    assert said.code == 1, said
    assert "problem" in said.out and all(word in said.out for word in words)
    assert "Traceback" not in said.out + said.err


def test_no_run_is_the_users_mistake(tmp_path: Path, cli: Any) -> None:
    said = cli("verify", tmp_path)
    assert said.code == 2 and "holds no run" in said.err
