"""What a dead engine left is cleared by the next one; what a living one uses is not touched."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from modularrsi.cage.worker import GROUP_PREFIX, reap_workers
from modularrsi.cgroups import Cgroup, Limits, support
from modularrsi.processes import identify
from modularrsi.runs.leftovers import leave, run_scratch, take_over


@pytest.fixture(autouse=True)
def _scratch(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODULARRSI_SCRATCH", str(short_folder))


def owned(run_key: str, pid: int, start: int) -> Path:
    folder = run_scratch(run_key)
    (folder / "0").mkdir(parents=True)
    owner = {"pid": pid, "started": start, "kind": "bubblewrap", "run": run_key}
    (folder / "owner.json").write_text(json.dumps(owner))
    return folder


def test_the_folder_of_a_dead_engine_is_removed() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    dead = owned("/runs/dead", done.pid, 1)
    assert asyncio.run(take_over("bubblewrap", "/runs/mine")) == []
    assert not dead.exists()
    assert (run_scratch("/runs/mine") / "owner.json").is_file()


def test_the_folder_of_a_living_engine_stays() -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        process = identify(other.pid)
        assert process is not None
        living = owned("/runs/living", process.pid, process.start)
        asyncio.run(take_over("bubblewrap", "/runs/mine"))
        assert living.exists()
    finally:
        other.kill()
        other.wait()


def test_a_pid_that_was_given_to_another_process_does_not_count_as_alive() -> None:
    recycled = owned("/runs/recycled", os.getpid(), 1)
    asyncio.run(take_over("bubblewrap", "/runs/mine"))
    assert not recycled.exists()


def test_leaving_removes_the_folder() -> None:
    asyncio.run(take_over("bubblewrap", "/runs/mine"))
    leave("/runs/mine")
    assert not run_scratch("/runs/mine").exists()


def test_a_folder_without_an_owner_is_nobody_s_to_remove() -> None:
    folder = run_scratch("/runs/unknown")
    folder.mkdir(parents=True)
    asyncio.run(take_over("bubblewrap", "/runs/mine"))
    assert folder.exists()


def test_control_groups_of_a_dead_run_s_workers_are_removed() -> None:
    where = support()
    if not where.usable:
        pytest.skip("no control groups here")
    name = f"{GROUP_PREFIX}{run_scratch('/runs/dead').name}-0-0"
    Cgroup.create(name, Limits(pids=5), where)
    reap_workers(run_scratch("/runs/dead").name)
    assert not [parent / name for parent in where.parents.values() if (parent / name).exists()]
