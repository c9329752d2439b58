"""How a planted defect is felt: the seed and the defect under the habits that it feeds, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modularrsi.instrument.defects import Defect, defects, plant
from modularrsi.instrument.libraries import kept
from modularrsi.instrument.measure import Arm, Plan, run_arm
from modularrsi.instrument.paired import Difference, difference
from modularrsi.instrument.tasks import write_tasks
from modularrsi.runs.launch import Listener

RATE = 0.25
"""The probability of the habits that a defect feeds, while it is measured: the seed must have something to lose."""
WINDOW = 8_000
"""Tokens of the window in which faults of the module `context` are measured: the seed hands its context over in it."""


@dataclass(frozen=True, slots=True)
class Felt:
    """One defect: the seed and the defect under the same settings."""

    defect: Defect
    seed: Arm
    planted: Arm

    @property
    def cost(self) -> Difference | None:
        return difference(self.seed.rewards, self.planted.rewards)


def measure_defects(plan: Plan, names: Sequence[str], listener: Listener) -> list[Felt]:
    """Run what is missing. Seeds under the same habits are run once."""
    return [_felt(defects()[name], plan, listener) for name in names]


def _felt(defect: Defect, plan: Plan, listener: Listener) -> Felt:
    tasks = write_tasks(plan.folder / "tasks", plan.tasks)
    fed = sorted({habit for fault in defect.faults for habit in fault.feeds})
    settings = (f"seed={plan.seed}", "habits=none", *(f"habits.{habit}={RATE}" for habit in fed))
    library = kept(plan.folder / "libraries", f"defect-{defect.name}", lambda place: plant(defect.name, place))
    window = WINDOW if any(fault.module == "context" for fault in defect.faults) else None
    seed = run_arm(f"seed-{'-'.join(fed) or 'none'}-{window or 'usual'}", plan, tasks, settings, window, None, listener)
    return Felt(defect, seed, run_arm(f"defect-{defect.name}", plan, tasks, settings, window, library, listener))
