"""`modularrsi simulation …`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.usable import usable

from harness.loader import load_library
from modularrsi.instrument.defects import defects
from modularrsi.simulation.habits import HABITS
from modularrsi.simulation.settings import FAULTS


def run(folder: Path, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "modularrsi", "simulation", *words]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_lists(tmp_path: Path) -> None:
    assert [row["name"] for row in json.loads(run(tmp_path, "habits", "--json"))] == list(HABITS)
    assert [row["name"] for row in json.loads(run(tmp_path, "faults", "--json"))] == list(FAULTS)
    assert {row["name"] for row in json.loads(run(tmp_path, "defects", "--json"))} == set(defects())


@pytest.mark.parametrize(("what", "names"), [("habits", HABITS), ("faults", FAULTS), ("defects", defects())])
def test_tables(what: str, names: dict[str, object], tmp_path: Path) -> None:
    printed = run(tmp_path, what)
    assert all(name in printed for name in names)


def test_plant(tmp_path: Path) -> None:
    assert "--model simulated --library faulty" in run(tmp_path, "plant", "one_claim", "faulty")
    assert load_library(tmp_path / "faulty").registry
    assert "is not empty" in run(tmp_path, "plant", "one_claim", "faulty", code=2)
    assert "did you mean" in run(tmp_path, "plant", "one_clam", "other", code=2)


def test_tasks(tmp_path: Path) -> None:
    assert "3 tasks" in run(tmp_path, "tasks", "t", "--count", "3")
    assert len(list((tmp_path / "t").iterdir())) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("plant", "one_claim", "file"),
        ("plant", "one_claim", "file/below"),
        ("tasks", "file"),
        ("measure", "--folder", "file"),
        ("measure", "--out", "nowhere/table.md"),
        ("measure-defects", "--folder", "file"),
        ("measure-defects", "--out", "."),
    ],
)
def test_places_that_cannot_be_written(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = run(tmp_path, *words, code=2)
    assert words[-1] in said
    assert said.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_an_unknown_habit(tmp_path: Path) -> None:
    assert "there is no such habit" in run(tmp_path, "measure", "--habit", "laziness", code=2)


@pytest.mark.slow
def test_measure(short_folder: Path) -> None:
    usable("bubblewrap")
    words = ("measure", "--habit", "clumsy_write", "--tasks", "2", "-k", "1", "--out", "table.md", "--folder", "m")
    printed = run(short_folder, *words, "--no-aa")
    assert "| `clumsy_write` | 1 | 1.00 | 0.00 | 1.00 | -1.00 (-1.00 to -1.00) |" in printed
    assert printed == (short_folder / "table.md").read_text()
    found = json.loads(run(short_folder, *words, "--json"))
    assert found["simulated"] is True
    assert found["habits"][0]["cost"]["mean"] == -1.0
    assert found["same_and_other"]["equal"]["mean"] == 0.0
