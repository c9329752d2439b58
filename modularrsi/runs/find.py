"""What `show` was pointed at: a run, one of its rollouts, or a trajectory file from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modularrsi.errors import UserError
from modularrsi.recorder.reader import load_trajectory, parse_trajectory
from modularrsi.recorder.view import TrajectoryView
from modularrsi.runs.folder import read_state
from modularrsi.runs.report import Report, report
from modularrsi.store import RunReader


@dataclass(frozen=True, slots=True)
class Found:
    """A run's `report`, or the trajectories of one rollout (one a step of the task) with its result if it is known:
    as they are read (`trajectories`) and as they are stored (`documents`, ATIF)."""

    report: Report | None = None
    rollout: Mapping[str, Any] | None = None
    trajectories: tuple[TrajectoryView, ...] = field(default=())
    documents: tuple[Any, ...] = field(default=())
    source: str = ""


def find(target: Path) -> Found:
    """Raises UserError that says what could be shown instead."""
    if target.is_file():
        read = load_trajectory(target)
        return Found(trajectories=(read,), documents=(json.loads(target.read_bytes()),), source=str(target))
    run = _run_above(target)
    if run is None:
        what = f"{target} is neither a run's folder, nor RUN/TASK/ATTEMPT, nor a trajectory file"
        raise UserError(what + _runs_in(target))
    state = read_state(run)
    assert state is not None
    if run == target:
        return Found(report=report(str(run), state), source=str(run))
    rollout = target.relative_to(run).as_posix()
    done = state.finished.get(rollout)
    if done is None:
        known = ", ".join(list(state.finished)[:8]) or "none is finished yet"
        state_word = "is not finished" if rollout in state.planned else "is not part of the run"
        raise UserError(f"{rollout} {state_word}; finished rollouts: {known}")
    blobs = RunReader(run).blobs
    stored = [blobs.get(digest) for digest in done.trajectory_blobs]
    return Found(
        rollout=done.result.to_json(),
        trajectories=tuple(parse_trajectory(data, str(target)) for data in stored),
        documents=tuple(json.loads(data) for data in stored),
        source=str(target),
    )


def _runs_in(folder: Path) -> str:
    """The latest runs, for who has named the folder that holds them."""
    runs = sorted(log.parent for log in folder.glob("*/events.jsonl"))
    return f"; runs in it: {', '.join(map(str, runs[-5:]))}" if runs else ""


def _run_above(target: Path) -> Path | None:
    return next((folder for folder in (target, *target.parents) if (folder / "events.jsonl").is_file()), None)
