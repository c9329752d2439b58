"""A measurement as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

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
