"""The twenty tasks: generated the same each time, and solvable in no way but by doing all of it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.listening import Heard
from support.usable import usable

from modularrsi.errors import UserError
from modularrsi.instrument.felt import measure_defects
from modularrsi.instrument.measure import Plan, measure
from modularrsi.instrument.table import defects_markdown
from modularrsi.instrument.tasks import write_tasks
from modularrsi.runs.acting import reference_acting
from modularrsi.runs.launch import launch
from modularrsi.runs.report import Report
from modularrsi.runs.request import RunRequest
from modularrsi.simulation.candidates import candidates
from modularrsi.simulation.solver.script import split
from modularrsi.simulation.solver.walkthrough import read_walkthrough
from modularrsi.tasks.load import find_tasks


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_tasks(tmp_path / "a")
    write_tasks(tmp_path / "b")
    write_tasks(tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_they_are_twenty_sound_tasks(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tasks = find_tasks([tmp_path])
    assert len(tasks) == len({task.digest for task in tasks}) == 20
    for task in tasks:
        assert not task.problems
        assert not task.unsupported("bubblewrap")
        assert "«" not in "".join(text.decode() for text in content(task.path).values())


def test_every_habit_has_its_occasion(tmp_path: Path) -> None:
    for folder in write_tasks(tmp_path):
        way = read_walkthrough(folder / "solution" / "walkthrough.toml")
        look, *_ = way.steps
        assert look.kind == "look"
        assert look.finds_names == ("code",)
        assert len(way.requirements) == 5
        instruction = (folder / "instruction.md").read_text()
        assert all(name in instruction for step in way.requirements for name in step.names)
        script = next(step for step in way.steps if step.kind == "write")
        assert "$" in script.content
        assert "`" in script.content
        assert any(step.seconds >= 1 for step in way.steps)


@pytest.mark.parametrize("count", [0, 21])
def test_there_are_no_more(count: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ask for 1 to 20"):
        write_tasks(tmp_path, count)


def run(tasks: list[Path], folder: Path, agent: str) -> Report:
    usable("bubblewrap")
    request = RunRequest(tasks=tuple(tasks), agent=agent, runs_dir=folder, sandbox="bubblewrap")  # type: ignore[arg-type]
    return asyncio.run(launch(request, reference_acting(request), Heard()))


def without(task: Path, number: int, folder: Path) -> Path:
    """The task with a reference solution that leaves one requirement out."""
    copy = folder / f"{task.name}-without-{number}"
    shutil.copytree(task, copy)
    statements = split((copy / "solution" / "solve.sh").read_text())
    assert statements is not None
    code, script, mode, *rest = statements
    parts = [[code], [script, mode], *([one] for one in rest)]
    kept = [line for part in parts[:number] + parts[number + 1 :] for line in part]
    (copy / "solution" / "solve.sh").write_text("\n".join(["#!/bin/bash", *kept, ""]))
    return copy


def test_the_reference_passes_and_nothing_fails(tmp_path: Path, short_folder: Path) -> None:
    tasks = write_tasks(tmp_path, 3)
    assert run(tasks, short_folder / "o", "oracle").passed == 3
    assert run(tasks, short_folder / "n", "nop").mean_reward == 0.0


@pytest.mark.slow
def test_each_requirement_counts(tmp_path: Path, short_folder: Path) -> None:
    """In each of the five families."""
    tasks = write_tasks(tmp_path / "whole", 5)
    parts = [without(task, number, tmp_path / "parts") for task in tasks for number in range(5)]
    assert len({content(part)["solution/solve.sh"] for part in parts}) == 25
    found = run(parts, short_folder, "oracle")
    assert [row.rewards for row in found.tasks] == [(0.0,)] * 25


@pytest.mark.slow
def test_all_twenty(tmp_path: Path, short_folder: Path) -> None:
    tasks = write_tasks(tmp_path)
    assert run(tasks, short_folder / "o", "oracle").passed == 20
    assert run(tasks, short_folder / "n", "nop").mean_reward == 0.0


@pytest.mark.slow
def test_a_habit_is_measured_and_the_measurement_goes_on(short_folder: Path) -> None:
    usable("bubblewrap")
    plan = Plan(short_folder / "m", tasks=3, attempts=1)
    (row,) = measure(plan, ["clumsy_write"], Heard())
    assert (row.without.mean, row.with_habit.mean, row.averted.mean) == (1.0, 0.0, 1.0)
    assert row.cost is not None
    assert row.cost.mean == -1.0
    heard = Heard()
    (again,) = measure(plan, ["clumsy_write"], heard)
    assert again == row
    assert not [phase for phase in heard.phases if phase[1] == "agent"]


@pytest.mark.slow
def test_what_has_changed_is_measured_anew(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder: a candidate that no longer does anything gives nothing back; another seed is another plan."""
    usable("bubblewrap")
    plan = Plan(short_folder / "m", tasks=1, attempts=1)
    (row,) = measure(plan, ["clumsy_write"], Heard())
    assert row.averted.mean == 1.0
    emptied = replace(candidates()["offer_write_file"], files={}, activates={})
    with monkeypatch.context() as patched:
        patched.setattr("modularrsi.instrument.measure.candidates", lambda: {"offer_write_file": emptied})
        (changed,) = measure(plan, ["clumsy_write"], Heard())
    assert changed.averted.mean == 0.0
    assert changed.with_habit == row.with_habit
    (other,) = measure(replace(plan, seed=1), ["clumsy_write"], Heard())
    assert other.with_habit.run != row.with_habit.run
    assert measure(plan, ["clumsy_write"], Heard()) == [row]


@pytest.mark.slow
def test_two_defects_at_once_are_measured(short_folder: Path) -> None:
    usable("bubblewrap")
    (row,) = measure_defects(Plan(short_folder / "m", tasks=1, attempts=1), ["vague_complaint+narrow_limit"], Heard())
    assert (row.seed.unscored, row.planted.unscored) == (0, 0)
    assert "| `vague_complaint+narrow_limit` |" in defects_markdown(Plan(short_folder), [row])


@pytest.mark.slow
def test_a_defect_is_felt_under_the_habits_that_it_feeds(short_folder: Path) -> None:
    usable("bubblewrap")
    plan = Plan(short_folder / "m", tasks=2, attempts=1)
    (row,) = measure_defects(plan, ["first_line_only"], Heard())
    assert (row.seed.mean, row.planted.mean) == (1.0, 0.0)
    assert "| `first_line_only` | `tools/route/keystrokes` |" in defects_markdown(plan, [row])
