"""The difference of two runs on the same tasks, with an interval.

Attempts of one task are not independent, so whole tasks are drawn again (bootstrap clustered by task); the two runs are
paired by task and attempt. What is unscored in either is left out, in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
Rewards = Mapping[str, Sequence[float | None]]
"""Task → the rewards of its attempts, None = unscored."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`mean` of the second minus the first over `pairs` pairs of `tasks` tasks; `low` and `high` bound 95 %."""

    mean: float
    low: float
    high: float
    pairs: int
    tasks: int


def difference(first: Rewards, second: Rewards, seed: int = 0) -> Difference | None:
    """None when there is no pair with two rewards. Percentile interval of 10,000 resamples."""
    pairs = {task: _differences(rewards, second.get(task, ())) for task, rewards in first.items()}
    found = [np.array(values) for values in pairs.values() if values]
    if not found:
        return None
    sums = np.array([values.sum() for values in found])
    counts = np.array([len(values) for values in found])
    chosen = np.random.default_rng(seed).integers(0, len(found), (RESAMPLES, len(found)))
    means = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(float(sums.sum() / counts.sum()), float(low), float(high), int(counts.sum()), len(found))


def _differences(first: Sequence[float | None], second: Sequence[float | None]) -> list[float]:
    return [b - a for a, b in zip(first, second, strict=False) if a is not None and b is not None]
