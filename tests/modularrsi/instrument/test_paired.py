"""Paired differences, against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from modularrsi.instrument.paired import difference


def test_by_hand() -> None:
    found = difference({"a": [0.0, 1.0], "b": [1.0]}, {"a": [1.0, 1.0], "b": [0.0]})
    assert found is not None
    assert (found.mean, found.pairs, found.tasks) == (0.0, 3, 2)
    # Two clusters: all of the first (+0.5 each), all of the second (−1), or both (0).
    assert (found.low, found.high) == (-1.0, 0.5)


def test_what_is_unscored_is_left_out_in_pairs() -> None:
    found = difference({"a": [None, 1.0], "b": [1.0, 0.0]}, {"a": [1.0, 0.0], "b": [None, 1.0]})
    assert found is not None
    assert (found.mean, found.pairs) == (0.0, 2)
    assert difference({"a": [None]}, {"a": [1.0]}) is None
    assert difference({"a": [1.0]}, {"b": [1.0]}) is None


def test_no_difference_has_no_width() -> None:
    found = difference({"a": [1.0], "b": [0.0]}, {"a": [1.0], "b": [0.0]})
    assert found is not None
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


def test_the_same_seed_draws_the_same() -> None:
    first = {str(n): [float(n % 2), float(n % 3 == 0)] for n in range(12)}
    second = {str(n): [1.0, float(n % 2)] for n in range(12)}
    assert difference(first, second, seed=1) == difference(first, second, seed=1)


@pytest.mark.slow
def test_coverage_on_clustered_data() -> None:
    """Tasks with effects of their own, three attempts each: the interval holds the truth about 19 times in 20."""
    rng = np.random.default_rng(3)
    inside = 0
    for number in range(300):
        base = rng.uniform(0.2, 0.8, 40)
        better = np.clip(base + 0.1 + rng.normal(0, 0.15, 40), 0, 1)
        first = {str(t): list((rng.random(3) < p).astype(float)) for t, p in enumerate(base)}
        second = {str(t): list((rng.random(3) < p).astype(float)) for t, p in enumerate(better)}
        found = difference(first, second, seed=number)
        assert found is not None
        inside += found.low <= 0.095 <= found.high
    assert 270 <= inside <= 297  # 90 % to 99 %
