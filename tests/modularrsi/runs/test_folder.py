"""Which run a command goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.finished import CONTRACT, write_run

from modularrsi.errors import UserError
from modularrsi.runs.folder import open_run, read_state
from modularrsi.runs.request import RunRequest


def request(runs: Path, **changes: object) -> RunRequest:
    return replace(RunRequest(tasks=(), runs_dir=runs), **changes)


def test_a_first_run_gets_a_new_folder(tmp_path: Path) -> None:
    opened = open_run(request(tmp_path / "runs"), CONTRACT)
    assert not opened.folder.exists()
    assert opened.folder.parent == tmp_path / "runs"


def test_the_same_command_goes_on_with_the_unfinished_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", {"a/1": 1.0})
    opened = open_run(request(tmp_path), CONTRACT)
    assert opened.folder == folder
    assert "1 of 4" in opened.sentence


def test_a_finished_run_is_not_touched_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", {"a/1": 1.0}, complete=True)
    assert open_run(request(tmp_path), CONTRACT).folder != folder


def test_new_starts_over(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", {})
    assert open_run(request(tmp_path, new=True), CONTRACT).folder != folder


def test_another_contract_is_another_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", {})
    assert open_run(request(tmp_path), replace(CONTRACT, attempts=3)).folder != folder


def test_a_named_run_with_other_settings_is_refused_and_says_which(tmp_path: Path) -> None:
    write_run(tmp_path / "one", {})
    with pytest.raises(UserError, match="attempts"):
        open_run(request(tmp_path, name="one"), replace(CONTRACT, attempts=3))


def test_a_named_run_goes_on_even_when_it_is_finished(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", {"a/1": 1.0}, complete=True)
    assert open_run(request(tmp_path, name="one"), CONTRACT).folder == folder


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 101, "white space"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="--run"):
        open_run(request(tmp_path, name=name), CONTRACT)


def test_retry_needs_a_run_that_exists(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--run NAME"):
        open_run(request(tmp_path, retry_unscored=True), CONTRACT)
    with pytest.raises(UserError, match="no run"):
        open_run(request(tmp_path, retry_unscored=True, name="one"), CONTRACT)


def test_a_damaged_neighbour_does_not_keep_others_from_running(tmp_path: Path) -> None:
    damaged = write_run(tmp_path / "zz", {"a/1": 1.0})
    lines = (damaged / "events.jsonl").read_bytes().splitlines(keepends=True)
    (damaged / "events.jsonl").write_bytes(lines[0].replace(b"a", b"b", 1) + b"".join(lines[1:]))
    folder = write_run(tmp_path / "one", {})
    assert open_run(request(tmp_path), CONTRACT).folder == folder


def test_the_state_of_no_run_is_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
