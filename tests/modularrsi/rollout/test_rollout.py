"""Faults of the machine under a rollout: unscored, with their owner, and the rollouts beside it go on."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from support.sandboxes import BUBBLEWRAP, require
from support.taskfolders import write_task

from modularrsi.agents.reference import Oracle
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.rollout.result import RolloutResult
from modularrsi.rollout.rollout import run_rollout
from modularrsi.sandbox import make_sandbox
from modularrsi.tasks.load import load_task


def played(folder: Path, rollout: Path) -> RolloutResult:
    task = load_task(write_task(folder / "task"))
    plan = RolloutPlan("task/1", task, 0, rollout)
    return asyncio.run(run_rollout(plan, Oracle(), lambda spec: make_sandbox("bubblewrap", spec)))[0]


def test_a_folder_that_cannot_be_made_is_the_engine_s_fault(short_folder: Path) -> None:
    (short_folder / "file").write_text("")
    result = played(short_folder, short_folder / "file" / "rollout")
    assert result.reward is None
    assert result.failure is not None
    assert (result.failure.owner, result.failure.cause) == ("engine", "machine")


def test_a_disk_that_is_full_while_the_tests_go_in_is_the_engine_s_fault(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(BUBBLEWRAP)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("modularrsi.sandbox.bwrap_machine.tempfile.TemporaryFile", full)
    result = played(short_folder, short_folder / "rollout")
    assert result.reward is None
    assert result.failure is not None
    assert (result.failure.owner, result.failure.cause) == ("engine", "machine")
    assert "No space left" in result.failure.message
    assert not (short_folder / "rollout").exists()
