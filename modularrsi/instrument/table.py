"""A measurement as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from modularrsi.instrument.felt import RATE, Felt
from modularrsi.instrument.measure import Plan, Row, SameAndOther
from modularrsi.instrument.paired import Difference

_HEAD = (
    "| habit | at | without | with | averted | it costs (95 %) | averting gives back (95 %) | turns | unscored | "
    "averted by |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def markdown(plan: Plan, rows: Sequence[Row], pair: SameAndOther | None) -> str:
    rollouts = plan.tasks * plan.attempts
    lines = [
        f"SIMULATED. Mean reward over {rollouts} rollouts an arm ({plan.tasks} tasks, {plan.attempts} attempts, seed "
        f"{plan.seed}); differences paired by task and attempt, intervals by a bootstrap clustered by task.",
        "",
        *_HEAD,
        *map(_row, rows),
    ]
    if pair is not None:
        lines += ["", _pair(pair)]
    return "\n".join(lines)


def defects_markdown(plan: Plan, rows: Sequence[Felt]) -> str:
    """The table of planted defects."""
    lines = [
        f"SIMULATED. Mean reward over {plan.tasks * plan.attempts} rollouts an arm ({plan.tasks} tasks, "
        f"{plan.attempts} attempts, seed {plan.seed}); the habits that a defect feeds at {RATE:g}, all others off.",
        "",
        "| defect | function | what is wrong | feeds | seed | planted | it costs (95 %) | turns |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *map(_felt_row, rows),
    ]
    return "\n".join(lines)


def _felt_row(row: Felt) -> str:
    faults = row.defect.faults
    fed = ", ".join(f"`{habit}`" for fault in faults for habit in fault.feeds) or "any"
    means = " | ".join("–" if arm.mean is None else f"{arm.mean:.2f}" for arm in (row.seed, row.planted))
    turns = " / ".join("–" if arm.turns is None else f"{arm.turns:.1f}" for arm in (row.seed, row.planted))
    functions, says = ", ".join(f"`{fault.function}`" for fault in faults), " ".join(fault.says for fault in faults)
    return f"| `{row.defect.name}` | {functions} | {says} | {fed} | {means} | {_shown(row.cost)} | {turns} |"


def to_json(plan: Plan, rows: Sequence[Row], pair: SameAndOther | None) -> dict[str, Any]:
    return {
        "simulated": True,
        "plan": {**asdict(plan), "folder": str(plan.folder)},
        "habits": [{**asdict(row), "cost": _plain(row.cost), "gain": _plain(row.gain)} for row in rows],
        "same_and_other": None if pair is None else asdict(pair),
    }


def _row(row: Row) -> str:
    arms = (row.without, row.with_habit, row.averted)
    means = " | ".join("–" if arm.mean is None else f"{arm.mean:.2f}" for arm in arms)
    turns = " / ".join("–" if arm.turns is None else f"{arm.turns:.1f}" for arm in arms)
    unscored = sum(arm.unscored for arm in arms)
    by = ", ".join(f"`{name}`" for name in row.trial.averted_by)
    return (
        f"| `{row.trial.habit}` | {row.trial.probability:g} | {means} | {_shown(row.cost)} | {_shown(row.gain)} | "
        f"{turns} | {unscored} | {by} |"
    )


def _pair(pair: SameAndOther) -> str:
    return (
        f"A/A: of {pair.rollouts} rollouts, {pair.same_replies} had the same replies, word for word, in two runs under "
        f"one seed; the difference of their rewards is {_shown(pair.equal)}. Under two it is {_shown(pair.other)}."
    )


def _shown(found: Difference | None) -> str:
    return "–" if found is None else f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _plain(found: Difference | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
