"""Settings of the simulated model, from TOML tables and from KEY=VALUE."""

from __future__ import annotations

from typing import Any

import pytest

from modularrsi.errors import UserError
from modularrsi.simulation.habits import HABITS, defaults, none
from modularrsi.simulation.settings import Simulation, overlay, parse_assignments, read_simulation


def read(*items: str, **table: Any) -> Simulation:
    return read_simulation(overlay(table, parse_assignments(items)), "x.toml: simulation")


def test_nothing_said_is_the_default() -> None:
    assert read() == Simulation()
    assert read().habits == defaults()


def test_every_habit_has_a_switch() -> None:
    for name in HABITS:
        assert read("habits=none", f"habits.{name}=1").habits == {**none(), name: 1.0}
        assert read(f"habits.{name}=0").habits == {**defaults(), name: 0.0}


def test_the_command_line_goes_over_the_file() -> None:
    found = read("habits.early_completion=0.5", "seed=9", habits={"early_completion": 0.1, "clumsy_write": 0.2}, seed=1)
    assert (found.seed, found.habits["early_completion"], found.habits["clumsy_write"]) == (9, 0.5, 0.2)


def test_all_tables() -> None:
    found = read(
        "faults.rate_limit=0.1", 'faults.script=["ok", "hang"]', "analyst.missed=1", "weights.one=0", "patience=3"
    )
    assert found.faults.rates == {"rate_limit": 0.1}
    assert found.faults.script == ("ok", "hang")
    assert found.errors["analyst"]["missed"] == 1.0
    assert found.errors["editor"] == Simulation().errors["editor"]
    assert (found.weights, found.patience) == ({"one": 0.0}, 3)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (["seed"], "KEY=VALUE"),
        (["=1"], "KEY=VALUE"),
        (["sed=1"], "sed is unknown; did you mean seed?"),
        (["seed=x"], "seed must be a whole number"),
        (["seed=-1"], "seed must be a whole number"),
        (["habits.early=1"], "habits.early is unknown; there are"),
        (["habits.early_completion=2"], "between 0 and 1"),
        (["habits=some"], '"none" or "default"'),
        (["seed.x=1", "seed=1", "seed.y=2"], "holds a value"),
        (["faults.script=hang"], "must be a list"),
        (['faults.script=["fire"]'], "'fire' is no fault"),
        (["faults.hang=0.7", "faults.cut_stream=0.7"], "sum to more than 1"),
        (["context_tokens=5"], "256 or more"),
        (["analyst.wrong=1"], "analyst.wrong is unknown"),
        (["analyst=3"], "analyst must be a table"),
    ],
)
def test_a_mistake_is_named(items: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words.replace("?", r"\?")):
        read(*items)
