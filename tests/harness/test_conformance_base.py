"""The frame of the conformance suites, and that every point has one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from harness.conformance import base
from harness.conformance.base import ContextFactory, Nonconformance, Result, require, run_suite, suite, suites
from harness.context import Context
from harness.errors import LibraryError
from harness.points import POINTS
from harness.registry import function
from harness.standins import STANDINS

POINT = "observation/refine"


@function(module="observation", point="refine", describes="test")
def shout(text: str, ctx: Context) -> str:
    return text.upper()


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A suite of our own in place of the shipped one."""
    module = ModuleType("harness.conformance.observation_refine")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(base, "suites", lambda: {"observation_refine": POINT})
    yield module


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_a_suite_whose_cases_state_their_rule(point: str) -> None:
    cases = suite(point)
    assert cases
    for case in cases:
        assert (case.__doc__ or "").strip(), f"{point}: {case} has no docstring"  # type: ignore[attr-defined]


def test_suites_are_found_by_point() -> None:
    assert set(suites().values()) == set(POINTS)


def test_every_case_runs_and_says_what_is_wrong(planted: ModuleType) -> None:
    seen: list[str] = []

    def case_first(fn: Any, make_context: ContextFactory) -> None:
        seen.append("first")
        require(fn("a", make_context()) == "a", "must not change a letter")

    def case_second(fn: Any, make_context: ContextFactory) -> None:
        seen.append("second")
        raise Nonconformance("second", "never good")

    def case_third(fn: Any, make_context: ContextFactory) -> None:
        seen.append("third")
        fn(None, make_context())

    def case_fourth(fn: Any, make_context: ContextFactory) -> None:
        seen.append("fourth")
        require(fn("a", make_context()) == "A", "must shout")

    vars(planted).update(locals())
    assert run_suite(POINT, shout) == [
        Result("first", False, "must not change a letter"),
        Result("second", False, "never good"),
        Result("third", False, "raised AttributeError: 'NoneType' object has no attribute 'upper'"),
        Result("fourth", True),
    ]
    assert seen == ["first", "second", "third", "fourth"]


def test_a_candidate_that_exits_is_a_verdict(planted: ModuleType) -> None:
    @function(module="observation", point="refine", describes="test")
    def leaves(text: str, ctx: Context) -> str:
        sys.exit(0)

    def case_any(fn: Any, make_context: ContextFactory) -> None:
        fn("a", make_context())

    vars(planted).update(case_any=case_any)
    assert run_suite(POINT, leaves) == [Result("any", False, "raised SystemExit: 0")]


def test_the_function_under_test_is_active_in_the_context(planted: ModuleType) -> None:
    def case_active(fn: Any, make_context: ContextFactory) -> None:
        ctx = make_context(model=['{"commands": [{"keystrokes": "ls"}]}'], terminal=["abc"])
        require(ctx.active(POINT) == ("shout",), "not active")
        ctx.drive()
        require("ABC" in ctx.state.turns[0].observation, "was not called")

    vars(planted).update(case_active=case_active)
    assert run_suite(POINT, shout) == [Result("active", True)]


def test_a_function_of_another_point_is_refused() -> None:
    with pytest.raises(LibraryError, match="is not a function of observation/limit"):
        run_suite("observation/limit", shout)


@pytest.mark.parametrize("point", ["observation/refin", "nowhere"])
def test_an_unknown_point_is_refused(point: str) -> None:
    with pytest.raises(LibraryError, match="unknown point"):
        suite(point)


def test_a_point_without_a_suite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "suites", dict)
    with pytest.raises(LibraryError, match="observation/refine has no conformance suite"):
        suite(POINT)


@pytest.mark.parametrize("point", ["observation/limit", "context/fit"])
def test_a_plain_function_in_another_style_than_the_seeds_conforms(point: str) -> None:
    """A suite judges behaviour, not the seed's wording."""
    assert [result for result in run_suite(point, STANDINS[point][0]) if not result.ok] == []
