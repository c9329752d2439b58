"""Draws depend on seed and place alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from modularrsi.simulation.chance import Chance


@given(st.integers(0, 1000), st.lists(st.text(max_size=5), max_size=4), st.text(max_size=5))
def test_a_draw_is_a_function_of_seed_and_place(seed: int, place: list[str], last: str) -> None:
    below = Chance(seed).at(*place)
    assert below.draw(last) == Chance(seed).draw(*place, last)
    assert 0.0 <= below.draw(last) < 1.0


def test_places_do_not_run_into_each_other() -> None:
    assert Chance(0).draw("ab", "c") != Chance(0).draw("a", "bc")
    assert Chance(0).draw("a") != Chance(1).draw("a")


def test_probabilities_are_kept() -> None:
    chance = Chance(3)
    happened = sum(chance.happens(0.3, "x", number) for number in range(5_000))
    assert 1_370 < happened < 1_630  # four standard deviations around 1,500
    assert not any(chance.happens(0.0, number) for number in range(500))
    assert all(chance.happens(1.0, number) for number in range(500))


def test_picks_are_even_and_weights_count() -> None:
    chance = Chance(5)
    picked = Counter(chance.pick("abcd", number) for number in range(4_000))
    assert all(880 < picked[letter] < 1_120 for letter in "abcd")
    weighted = Counter(chance.weighted([("a", 3.0), ("b", 1.0), ("never", 0.0)], number) for number in range(4_000))
    assert 2_880 < weighted["a"] < 3_120
    assert weighted["never"] == 0
