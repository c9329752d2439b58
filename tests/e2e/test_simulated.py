"""`--model simulated`: the whole product without a key, and the mark on all that comes of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.listening import Heard
from support.scripted_run import XML
from support.usable import usable

from modularrsi.errors import UserError
from modularrsi.instrument.defects import plant
from modularrsi.instrument.measure import Plan, same_and_other
from modularrsi.instrument.tasks import write_tasks
from modularrsi.runs.find import find
from modularrsi.runs.harness_acting import HarnessActing
from modularrsi.runs.launch import launch
from modularrsi.runs.report import Report
from modularrsi.runs.request import RunRequest
from modularrsi.store import RunReader

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "evolution_pool" / "samples"
TASKS = ROOT / "tests" / "tasks"


@pytest.fixture(autouse=True)
def sandbox() -> None:
    usable("bubblewrap")


def simulate(folder: Path, *items: str, tasks: Path = SAMPLES, heard: Heard | None = None, **fields: Any) -> Report:
    request = RunRequest(
        tasks=(tasks,), model="simulated", simulate=items, runs_dir=folder, name="run", max_turns=60,
        sandbox="bubblewrap", **fields,
    )  # fmt: skip
    return asyncio.run(launch(request, HarnessActing(request), heard or Heard()))


def test_the_competent_solver_solves_what_the_reference_solves(short_folder: Path) -> None:
    report = simulate(short_folder, "habits=none")
    assert (report.passed, report.scored) == (4, 4)
    assert report.cost_usd == 0.0
    assert report.simulated


def test_the_mark_is_on_everything(short_folder: Path) -> None:
    heard = Heard()
    report = simulate(short_folder, "habits=none", tasks=SAMPLES / "access-log", heard=heard)
    assert report.to_json()["simulated"] is True
    assert any("simulated (seed 0)" in line for line in heard.lines)
    found = find(short_folder / "run" / "access-log" / "1")
    assert found.documents[0]["extra"]["simulated"] is True
    assert found.documents[0]["agent"]["model_name"] == "simulated-solver"
    (created,) = [event for event in RunReader(short_folder / "run").events() if event.type == "run.created"]
    models = created.data["contract"]["models"]
    assert models["solver"]["simulated"] is True
    assert models["simulation"]["habits"]["early_completion"] == 0.0
    assert "127.0.0.1" not in json.dumps(created.data)


def run_command(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "modularrsi", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_says_so(short_folder: Path) -> None:
    words = ["run", str(SAMPLES / "access-log"), "--model", "simulated", "--simulate", "habits=none", "--run", "r"]
    assert "SIMULATED" in run_command(*words, folder=short_folder)
    assert "SIMULATED" in run_command("show", "runs/r", folder=short_folder)
    assert "SIMULATED" in run_command("show", "runs/r/access-log/1", folder=short_folder)
    assert "SIMULATED" in run_command("verify", "runs/r", folder=short_folder)
    assert json.loads(run_command("verify", "runs/r", "--json", folder=short_folder))["simulated"] is True
    assert json.loads(run_command("show", "runs/r", "--json", folder=short_folder))["simulated"] is True
    assert json.loads(run_command("show", "runs/r/access-log/1", "--json", folder=short_folder))["simulated"] is True


@pytest.mark.slow
def test_another_grammar_is_played_as_well(short_folder: Path) -> None:
    (short_folder / "xml.json").write_text(json.dumps(XML))
    assert simulate(short_folder, "habits=none", composition=short_folder / "xml.json").passed == 4


@pytest.mark.slow
def test_all_test_tasks_that_bubblewrap_runs(short_folder: Path) -> None:
    for number, task in enumerate(sorted(TASKS.iterdir())):
        if task.name != "other-user":
            report = simulate(short_folder / str(number), "habits=none", tasks=task)
            assert report.passed == 1, task.name


@pytest.mark.slow
def test_one_seed_plays_the_same_twice(short_folder: Path) -> None:
    """An A/A pair. A terminal that is slower once makes the solver wait once more, so rewards are compared, and
    nearly all replies."""
    pair = same_and_other(Plan(short_folder, tasks=4, attempts=2, concurrency=4), Heard())
    assert pair.equal is not None
    assert (pair.equal.mean, pair.rollouts) == (0.0, 8)
    assert pair.same_replies >= 5


def test_habits_cost_reward_and_a_harness_gives_it_back(short_folder: Path) -> None:
    write_tasks(short_folder / "t", 2)
    tasks = short_folder / "t"
    items = ("habits=none", "habits.clumsy_write=1")
    assert simulate(short_folder / "a", *items, tasks=tasks).mean_reward == 0.0
    helped = {**default_composition(), "tools/command": ["write_file"], "tools/route": ["helpers_first"]}
    (short_folder / "c.json").write_text(json.dumps(helped))
    assert simulate(short_folder / "b", *items, tasks=tasks, composition=short_folder / "c.json").mean_reward == 1.0


def default_composition() -> dict[str, list[str]]:
    return json.loads((ROOT / "harness" / "composition.json").read_text())


@pytest.mark.slow
def test_a_planted_defect_is_felt(short_folder: Path) -> None:
    write_tasks(short_folder / "t", 3)
    items = ("habits=none", "habits.early_completion=1")
    library = plant("one_claim", short_folder / "l")
    report = simulate(short_folder / "a", *items, tasks=short_folder / "t", library=library)
    assert report.mean_reward == 0.0
    assert all(rollout["turns"] <= 6 for rollout in report.rollouts)
    damaged = plant("first_line_only", short_folder / "m")
    assert simulate(short_folder / "b", "habits=none", tasks=short_folder / "t", library=damaged).mean_reward == 0.0


@pytest.mark.slow
def test_a_small_window_is_one_for_both(short_folder: Path) -> None:
    write_tasks(short_folder / "t", 1)
    report = simulate(short_folder, "habits=none", tasks=short_folder / "t", context_tokens=6000)
    assert report.scored == 1
    found = find(short_folder / "run" / report.rollouts[0]["id"])
    assert found.documents[0].get("subagent_trajectories"), "the context was never handed over"
    assert report.passed == 1


@pytest.mark.slow
def test_faults_of_the_service_cost_time_and_no_reward(short_folder: Path) -> None:
    heard = Heard()
    script = ["server_error", "rate_limit", "ok", "cut_stream", "bad_json", "ok", "empty_choice"]
    faults = (f"faults.script={json.dumps(script)}", "faults.retry_after=0.1")
    report = simulate(short_folder, "habits=none", *faults, tasks=SAMPLES / "access-log", heard=heard)
    assert report.passed == 1
    assert len(heard.events) == 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"simulate": ("seed=x",)}, "seed must be a whole number"),
        ({"api_key_env": "KEY"}, "without a key"),
        ({"model": "other", "base_url": "http://127.0.0.1:9/v1", "simulate": ("seed=1",)}, "add --model simulated"),
    ],
)
def test_mistakes_are_named_before_anything_starts(fields: dict[str, Any], words: str, short_folder: Path) -> None:
    request = RunRequest(**{"tasks": (SAMPLES,), "model": "simulated", "runs_dir": short_folder, **fields})
    with pytest.raises(UserError, match=words):
        HarnessActing(request)


def test_settings_can_stand_in_a_models_file(short_folder: Path) -> None:
    file = short_folder / "m.toml"
    habits = "[simulation]\nseed = 3\n[simulation.habits]\nclumsy_write = 0\n"
    file.write_text(f'[models.solver]\nmodel = "simulated"\n{habits}')
    request = RunRequest(tasks=(SAMPLES,), models_file=file, simulate=("seed=4",), runs_dir=short_folder)
    models = HarnessActing(request).models()
    assert (models["simulation"]["seed"], models["simulation"]["habits"]["clumsy_write"]) == (4, 0)
    assert models["solver"]["model"] == "simulated-solver"
