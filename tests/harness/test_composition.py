"""Compositions: validation, canonical form, defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.composition import Composition
from harness.context import Context
from harness.errors import CompositionError
from harness.points import POINTS
from harness.registry import Registry, function
from harness.standins import STANDINS
from harness.types import Command, CommandCall, Routed

ONE = {point: (entries[0].name,) for point, entries in STANDINS.items()}


def refiner(name: str, **tag: Any) -> Callable[..., Any]:
    def refine(text: str, ctx: Context) -> str:
        return text

    refine.__name__ = name
    return function(module="observation", point="refine", describes="test", **tag)(refine)


def helper(name: str, **tag: Any) -> Callable[..., Any]:
    def command(call: CommandCall, ctx: Context) -> str:
        return ""

    command.__name__ = name
    return function(module="tools", point="command", describes="test", **tag)(command)


@function(module="tools", point="route", describes="types everything")
def typing_only(command: Command, ctx: Context) -> Routed:
    return Routed(command)


def registry(*extra: Callable[..., Any]) -> Registry:
    made = Registry()
    for target in (*(entries[0].call for entries in STANDINS.values()), typing_only, *extra):
        made.add(target)
    return made


def composed(**many: tuple[str, ...]) -> Composition:
    return Composition({**ONE, **{key.replace("__", "/"): names for key, names in many.items()}})


def test_a_sound_composition_resolves_in_the_order_listed() -> None:
    made = registry(refiner("a"), refiner("b"), refiner("c"))
    active = composed(observation__refine=("c", "a")).resolve(made)
    assert [entry.name for entry in active["observation/refine"]] == ["c", "a"]
    assert set(active) == {*ONE, "observation/refine"}


def test_all_problems_are_reported_at_once() -> None:
    wrong = Composition({
        **ONE,
        "tools/route": (),
        "context/fit": ("fit", "fit2"),
        "observation/refine": ("strip_colour",),
        "observation/refin": ("x",),
    })
    with pytest.raises(CompositionError) as caught:
        wrong.validate(registry(refiner("strip_color")))
    text = str(caught.value)
    for part in (
        "tools/route needs exactly one function, none given",
        "context/fit needs exactly one function, 2 given: fit, fit2",
        "context/fit has no function 'fit2'; did you mean 'fit'?",
        "observation/refine has no function 'strip_colour'; did you mean 'strip_color'?",
        "unknown point 'observation/refin'; did you mean 'observation/refine'?",
    ):
        assert part in text


def test_a_name_twice_is_a_problem() -> None:
    problems = composed(observation__refine=("a", "a")).problems(registry(refiner("a")))
    assert problems == ["observation/refine names 'a' twice"]


@pytest.mark.parametrize("reference", ["refine/b", "observation/refine/b", "observation/refine", "refine"])
def test_a_conflict_is_found_by_every_way_to_name_it(reference: str) -> None:
    made = registry(refiner("a", conflicts=[reference]), refiner("b"))
    assert composed(observation__refine=("a",)).problems(made) == []
    problems = composed(observation__refine=("a", "b")).problems(made)
    assert problems == [
        "observation/refine/a conflicts with observation/refine/b; leave one of them out"
    ]


@pytest.mark.parametrize("reference", ["refine/b", "observation/refine/b", "observation/refine"])
def test_an_unmet_need_is_found_by_every_way_to_name_it(reference: str) -> None:
    made = registry(refiner("a", needs=[reference]), refiner("b"))
    assert composed(observation__refine=("b", "a")).problems(made) == []
    problems = composed(observation__refine=("a",)).problems(made)
    assert problems == [f"observation/refine/a needs {reference}, which is not active"]


def test_a_reference_to_nothing_is_a_problem_even_when_it_could_be_ignored() -> None:
    made = registry(refiner("a", conflicts=["refine/bb"], needs=["tools/routing"]), refiner("b"))
    problems = composed(observation__refine=("a",)).problems(made)
    assert len(problems) == 2
    assert "conflicts with 'refine/bb': there is no such function or point" in problems[0]
    assert "needs 'tools/routing': there is no such function or point; did you mean 'tools/route'" in problems[1]


def test_a_command_needs_a_route_that_dispatches_commands() -> None:
    made = registry(helper("write_file"))
    assert composed(tools__command=("write_file",)).problems(made) == []
    typed = composed(tools__command=("write_file",), tools__route=("typing_only",))
    assert typed.problems(made) == [
        "tools/command/write_file: no active tools/route dispatches helper commands; choose one that does"
    ]


names = st.lists(st.text("abcxyz_", min_size=1, max_size=5), max_size=3, unique=True)


@given(st.dictionaries(st.sampled_from(sorted(POINTS)), names))
def test_json_round_trip_keeps_the_digest(functions: dict[str, list[str]]) -> None:
    made = Composition({point: tuple(listed) for point, listed in functions.items()})
    again = Composition.from_json(made.canonical())
    assert again == made
    assert again.digest == made.digest
    shuffled = Composition({point: tuple(listed) for point, listed in reversed(functions.items())})
    assert shuffled.digest == made.digest


def test_order_within_a_point_counts() -> None:
    assert composed(observation__refine=("a", "b")).digest != composed(observation__refine=("b", "a")).digest


def test_a_single_name_may_stand_without_a_list() -> None:
    assert Composition.from_json('{"tools/route": "route"}').functions == {"tools/route": ("route",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "choice: not JSON"),
        ("[]", "choice: must be an object"),
        ('{"tools/route": 3}', "choice: tools/route: must be a list"),
        ('{"tools/route": [3]}', "choice: tools/route: must be a list"),
    ],
)
def test_unreadable_json_names_the_field(text: str, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        Composition.from_json(text, "choice")


def test_the_default_takes_the_first_of_each_one_point_and_none_of_the_others() -> None:
    made = registry(refiner("a"))
    assert Composition.default(made).functions == {**ONE}


def test_a_library_may_bring_its_default(tmp_path: Path) -> None:
    (tmp_path / "composition.json").write_text(json.dumps({"tools/route": ["typing_only"]}))
    assert Composition.default(registry(), tmp_path).functions == {"tools/route": ("typing_only",)}
    (tmp_path / "composition.json").write_text("nonsense")
    with pytest.raises(CompositionError, match=r"composition\.json: not JSON"):
        Composition.default(registry(), tmp_path)
