"""Totals: None is never counted as 0, and never hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.finished import write_run

from modularrsi.runs.audit import audit
from modularrsi.runs.folder import read_state
from modularrsi.runs.report import Report, group_kind, report


def of(folder: Path) -> Report:
    state = read_state(folder)
    assert state is not None
    return report("run", state)


def test_unscored_rollouts_are_shown_and_not_averaged_in(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "r", {"a/1": 1.0, "b/1": None, "a/2": 0.0, "b/2": None}, complete=True))
    assert (found.scored, found.unscored, found.passed) == (2, 2, 1)
    assert found.mean_reward == 0.5
    assert found.worst_case == 0.25
    assert [(row.task, row.rewards, row.kind) for row in found.tasks] == [
        ("a", (1.0, 0.0), "contrastive"), ("b", (None, None), "unscored")
    ]


def test_nothing_scored_has_no_mean(tmp_path: Path) -> None:
    assert of(write_run(tmp_path / "r", {})).mean_reward is None
    assert of(write_run(tmp_path / "s", {"a/1": None})).mean_reward is None


def test_an_unknown_cost_is_unknown_and_a_free_one_is_zero(tmp_path: Path) -> None:
    free = {"prompt_tokens": 10, "completion_tokens": 1, "cost_usd": 0.0}
    unknown = {"prompt_tokens": 10, "completion_tokens": 1, "cost_usd": None}
    assert of(write_run(tmp_path / "free", {"a/1": 1.0}, usage=free)).cost_usd == 0.0
    assert of(write_run(tmp_path / "unknown", {"a/1": 1.0}, usage=unknown)).cost_usd is None
    assert of(write_run(tmp_path / "none", {"a/1": 1.0})).cost_usd is None
    assert of(tmp_path / "free").prompt_tokens == 10
    unanswered = {"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0, "calls": 0}
    assert of(write_run(tmp_path / "unanswered", {"a/1": None}, usage=unanswered)).cost_usd is None


def test_a_report_is_strict_json(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "r", {"a/1": None, "b/1": 1.0}))
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["mean_reward"] == 1.0


@pytest.mark.parametrize(
    ("rewards", "kind"),
    [([1.0, 1.0], "positive"), ([0.0, 0.5], "negative"), ([1.0, 0.0], "contrastive"), ([1.0, None], "positive"),
     ([None], "unscored"), ([], "unscored")],
)
def test_groups(rewards: list[float | None], kind: str) -> None:
    assert group_kind(rewards) == kind


def test_an_honest_run_is_verified(tmp_path: Path) -> None:
    assert audit(write_run(tmp_path / "r", {"a/1": 1.0, "b/1": None}, complete=True)) == []


def test_a_changed_reward_breaks_the_chain(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", {"a/1": 0.0, "b/1": 1.0}, complete=True)
    log = folder / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"reward":0.0', b'"reward":1.0', 1))
    assert [problem.where for problem in audit(folder)] == ["events.jsonl, line 3"]


def test_a_reward_that_does_not_follow_from_its_steps_is_found(tmp_path: Path) -> None:
    from support.finished import result

    from modularrsi.store import RunStore

    folder = write_run(tmp_path / "r", {})
    with RunStore(folder) as store:
        forged = result("a/1", 0.0).to_json() | {"reward": 1.0}
        store.append("rollout.finished", {"result": forged, "trajectory_blob": []}, durable=True)
    assert any("does not follow" in problem.message for problem in audit(folder))
