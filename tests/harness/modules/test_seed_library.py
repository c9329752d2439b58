"""The seed library as a whole: every point has a function, and the default composition works together."""

from __future__ import annotations

from harness.composition import Composition
from harness.loader import load_library, seed_library_path
from harness.points import POINTS


def test_the_default_composition_is_valid_and_fills_every_point_that_needs_one() -> None:
    registry = load_library(seed_library_path()).registry
    composition = Composition.default(registry, seed_library_path())
    assert composition.problems(registry) == []
    active = composition.resolve(registry)
    for key, point in POINTS.items():
        assert point.arity == "many" or len(active[key]) == 1


def test_the_default_composition_is_the_one_in_the_file() -> None:
    registry = load_library(seed_library_path()).registry
    functions = Composition.default(registry, seed_library_path()).functions
    assert functions["tools/grammar"] == ("json_object",)
    assert functions["tools/route"] == ("keystrokes",)
    assert "tools/command" not in functions


def test_helper_commands_want_a_route_that_dispatches_them() -> None:
    registry = load_library(seed_library_path()).registry
    default = dict(Composition.default(registry, seed_library_path()).functions)
    with_helper = {**default, "tools/command": ("write_file",)}
    assert Composition(with_helper).problems(registry)
    assert not Composition({**with_helper, "tools/route": ("helpers_first",)}).problems(registry)
