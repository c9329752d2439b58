"""The table of habits: what each alone costs, and what the function that averts it gives back.

For each habit three arms on the same tasks under the same seed: no habit; the habit; the habit and the function. Then
an A/A pair: one run twice under one seed, and once under another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.loader import library_digest, seed_library_path
from modularrsi.digest import digest_tree, digest_value
from modularrsi.errors import UserError
from modularrsi.instrument.libraries import kept, with_candidates
from modularrsi.instrument.paired import Difference, Rewards, difference
from modularrsi.instrument.tasks import COUNT, write_tasks
from modularrsi.runs.harness_acting import HarnessActing
from modularrsi.runs.launch import Listener, launch
from modularrsi.runs.report import Report
from modularrsi.runs.request import RunRequest
from modularrsi.simulation.candidates import candidates
from modularrsi.simulation.settings import parse_assignments, read_simulation
from modularrsi.store import RunReader
from modularrsi.store.journal import DONE


@dataclass(frozen=True, slots=True)
class Trial:
    """How a habit is measured: at which probability, which candidates avert it, and in which window (None = the
    simulator's usual one)."""

    habit: str
    probability: float
    averted_by: tuple[str, ...]
    context_tokens: int | None = None


TRIALS: dict[str, Trial] = {
    trial.habit: trial
    for trial in (
        Trial("unreadable_reply", 0.5, ("json_tolerant",)),
        Trial("early_completion", 1.0, ("outputs_exist",)),
        Trial("clumsy_write", 1.0, ("offer_write_file",)),
        Trial("lost_when_cut", 1.0, ("rest_in_file",)),
        Trial("idle_polling", 1.0, ("shell_status",)),
        Trial("repeated_command", 1.0, ("repeated_command",)),
        Trial("forgets_after_compression", 1.0, ("requirement_list",), context_tokens=8_000),
        Trial("answers_twice", 1.0, ("json_tolerant",)),
        Trial("ignores_warning", 1.0, ("unfinished_line",)),
    )
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`folder` holds tasks, libraries and runs: an interrupted measurement goes on there, and plans can share it."""

    folder: Path
    tasks: int = COUNT
    attempts: int = 2
    concurrency: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Arm:
    """One run's outcome. `run` is its folder's name; `turns` is the mean over rollouts; `rewards` by task."""

    run: str
    mean: float | None
    turns: float | None
    unscored: int
    rewards: Rewards


@dataclass(frozen=True, slots=True)
class Row:
    """One habit: its three arms, what it costs and what is given back."""

    trial: Trial
    without: Arm
    with_habit: Arm
    averted: Arm

    @property
    def cost(self) -> Difference | None:
        return difference(self.without.rewards, self.with_habit.rewards)

    @property
    def gain(self) -> Difference | None:
        return difference(self.with_habit.rewards, self.averted.rewards)


@dataclass(frozen=True, slots=True)
class SameAndOther:
    """The A/A pair: `same_replies` of `rollouts` had the same replies in both runs of one seed; `equal` and `other` are
    the differences of rewards under one seed and between two."""

    rollouts: int
    same_replies: int
    equal: Difference | None
    other: Difference | None


def chosen(names: Sequence[str]) -> list[str]:
    """These habits, or all when none is named. Raises UserError for one that is not known."""
    for name in names:
        if name not in TRIALS:
            raise UserError(f"--habit {name}: there is no such habit; there are {', '.join(TRIALS)}")
    return list(names or TRIALS)


def measure(plan: Plan, habits: Sequence[str], listener: Listener) -> list[Row]:
    """Run what is missing of the three arms of each habit."""
    tasks = write_tasks(plan.folder / "tasks", plan.tasks)
    return [_row(TRIALS[habit], plan, tasks, listener) for habit in habits]


def same_and_other(plan: Plan, listener: Listener) -> SameAndOther:
    """Three runs with the usual habits: two under one seed, one under another."""
    tasks = write_tasks(plan.folder / "tasks", plan.tasks)
    first, again, other = (
        run_arm(name, plan, tasks, (f"seed={seed}",), None, None, listener)
        for name, seed in (("aa-1", plan.seed), ("aa-2", plan.seed), ("aa-other", plan.seed + 1))
    )
    replies = [_replies(plan.folder / "runs" / arm.run) for arm in (first, again)]
    same = sum(replies[0][scope] == replies[1].get(scope) for scope in replies[0])
    return SameAndOther(
        len(replies[0]), same, difference(first.rewards, again.rewards), difference(first.rewards, other.rewards)
    )


def _row(trial: Trial, plan: Plan, tasks: Sequence[Path], listener: Listener) -> Row:
    window = trial.context_tokens
    base = (f"seed={plan.seed}", "habits=none")
    bad = (*base, f"habits.{trial.habit}={trial.probability}")
    averting = [candidates()[name] for name in trial.averted_by]
    library = kept(plan.folder / "libraries", trial.habit, lambda place: with_candidates(place, averting))
    return Row(
        trial,
        run_arm(f"none-{window or 'usual'}", plan, tasks, base, window, None, listener),
        run_arm(trial.habit, plan, tasks, bad, window, None, listener),
        run_arm(f"{trial.habit}-averted", plan, tasks, bad, window, library, listener),
    )


def run_arm(
    name: str, plan: Plan, tasks: Sequence[Path], simulate: tuple[str, ...], window: int | None, library: Path | None,
    listener: Listener,
) -> Arm:  # fmt: skip
    """One run of all tasks: found finished, gone on with, or begun.

    The run's name is `name` and a digest of what it measures: what has changed since (a candidate, a defect, the seed
    library, a task, a setting) is measured anew, and never taken for what was there.
    """
    measured = [
        {task.name: digest_tree(task) for task in tasks}, plan.attempts, window,
        read_simulation(parse_assignments(simulate), "simulation").describe(),
        library_digest(library or seed_library_path()),
    ]  # fmt: skip
    run = f"{name.replace('+', '.')[:60]}-{digest_value(measured)[:8]}"
    request = RunRequest(
        tasks=tuple(tasks), attempts=plan.attempts, concurrency=plan.concurrency, model="simulated", simulate=simulate,
        context_tokens=window, library=library, max_turns=60, runs_dir=plan.folder / "runs", name=run,
    )  # fmt: skip
    return _arm(run, asyncio.run(launch(request, HarnessActing(request), listener)))


def _arm(run: str, report: Report) -> Arm:
    turns = [rollout["turns"] for rollout in report.rollouts if rollout["turns"] is not None]
    rewards = {row.task: row.rewards for row in report.tasks}
    return Arm(run, report.mean_reward, sum(turns) / len(turns) if turns else None, report.unscored, rewards)


def _replies(run: Path) -> dict[str, list[str]]:
    """Scope → the replies in it, in order (a long one by the name of its blob, which is its digest)."""
    found: dict[str, list[str]] = {}
    for event in RunReader(run).events():
        if event.type == DONE:
            reply = event.data["reply"]["text"] if "reply" in event.data else event.data["reply_blob"]
            found.setdefault(event.data["scope"], []).append(str(reply))
    return found
