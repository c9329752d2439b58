"""Tasks of the kinds that users have: the reference solution scores 1.0, doing nothing 0.0, twice, in each sandbox.

A task that a sandbox cannot give what it needs is refused by name, before anything starts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.listening import Heard
from support.usable import usable

from modularrsi.errors import UserError
from modularrsi.runs.acting import reference_acting
from modularrsi.runs.launch import launch
from modularrsi.runs.report import Report
from modularrsi.runs.request import RunRequest

TASKS = Path(__file__).parent.parent / "tasks"
BROKEN = Path(__file__).parent.parent / "tasks_broken"
ALL = sorted(path.name for path in TASKS.iterdir())
NEEDS_DOCKER = {"other-user": "USER"}


def run(tmp_path: Path, agent: str, kind: str, folders: list[Path], attempts: int = 2) -> tuple[Report, Heard]:
    heard = Heard()
    request = RunRequest(
        tasks=tuple(folders), agent=agent, attempts=attempts, concurrency=2, sandbox=kind, runs_dir=tmp_path / "runs"
    )
    return asyncio.run(launch(request, reference_acting(request), heard)), heard


def check(report: Report, heard: Heard, reward: float) -> None:
    wrong = {
        name: (result.reward, result.failure, [step.verifier_output[-300:] for step in result.steps])
        for name, result in heard.results.items()
        if result.reward != reward
    }
    assert not wrong
    assert report.complete and report.unscored == 0


def bubblewrap_tasks() -> list[Path]:
    return [TASKS / name for name in ALL if name not in NEEDS_DOCKER]


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_bubblewrap(tmp_path: Path, agent: str, reward: float) -> None:
    usable("bubblewrap")
    check(*run(tmp_path, agent, "bubblewrap", bubblewrap_tasks()), reward)


@pytest.mark.docker
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_docker(tmp_path: Path, agent: str, reward: float) -> None:
    usable("docker")
    check(*run(tmp_path, agent, "docker", [TASKS]), reward)


@pytest.mark.parametrize("name", NEEDS_DOCKER)
def test_bubblewrap_refuses_by_name_what_it_cannot_give(tmp_path: Path, name: str) -> None:
    usable("bubblewrap")
    with pytest.raises(UserError, match=NEEDS_DOCKER[name]) as refused:
        run(tmp_path, "nop", "bubblewrap", [TASKS / name])
    assert name in str(refused.value)
    assert not (tmp_path / "runs").exists(), "nothing is written for a run that cannot start"


BROKEN_CAUSES = {
    "no-reward": "reward_missing", "verifier-hangs": "verifier_timeout", "tests-missing": "tests_missing"
}


def check_broken(report: Report, heard: Heard) -> None:
    assert report.mean_reward is None and report.scored == 0 and report.unscored == 3
    found = {result.task: result for result in heard.results.values()}
    assert found.keys() == BROKEN_CAUSES.keys()
    for name, result in found.items():
        assert result.reward is None
        assert result.failure is not None
        assert (result.failure.owner, result.failure.cause) == ("verifier", BROKEN_CAUSES[name])


def test_broken_tasks_are_unscored_with_cause_and_owner_in_bubblewrap(tmp_path: Path) -> None:
    usable("bubblewrap")
    check_broken(*run(tmp_path, "oracle", "bubblewrap", [BROKEN], attempts=1))


@pytest.mark.docker
def test_broken_tasks_are_unscored_with_cause_and_owner_in_docker(tmp_path: Path) -> None:
    usable("docker")
    check_broken(*run(tmp_path, "oracle", "docker", [BROKEN], attempts=1))


def test_the_samples_that_ship_are_sound(tmp_path: Path) -> None:
    usable("bubblewrap")
    samples = TASKS.parent.parent / "evolution_pool" / "samples"
    check(*run(tmp_path, "oracle", "bubblewrap", [samples], attempts=1), 1.0)
    check(*run(tmp_path, "nop", "bubblewrap", [samples], attempts=1), 0.0)


def test_the_six_tasks_of_another_author(tmp_path: Path, shared: Path) -> None:
    usable("bubblewrap")
    check(*run(tmp_path, "oracle", "bubblewrap", [shared / "data" / "tasks"], attempts=1), 1.0)
    check(*run(tmp_path, "nop", "bubblewrap", [shared / "data" / "tasks"], attempts=1), 0.0)
