"""How long to wait, whatever was written."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.parsing import clamp_duration


@pytest.mark.parametrize(
    ("given_value", "seconds"),
    [
        (0.1, 0.1),
        (7, 7.0),
        (60, 60.0),
        (61, 60.0),
        (1e9, 60.0),
        (10**400, 60.0),
        (-(10**400), 0.0),
        (-3, 0.0),
        (-0.0, 0.0),
        (math.nan, 0.0),
        (math.inf, 60.0),
        (-math.inf, 0.0),
        (True, 1.0),
        (False, 0.0),
        (None, 1.0),
        ("30", 1.0),
        ([], 1.0),
    ],
)
def test_values_are_clamped(given_value: object, seconds: float) -> None:
    assert clamp_duration(given_value) == seconds


def test_a_lower_limit_holds_for_the_default_too() -> None:
    assert clamp_duration(None, 0.5) == 0.5
    assert clamp_duration(30, 0.5) == 0.5


@given(st.floats() | st.integers() | st.booleans() | st.none() | st.text(), st.floats(0, 100))
def test_any_value_is_within_bounds(value: Any, maximum: float) -> None:
    seconds = clamp_duration(value, maximum)
    assert isinstance(seconds, float)
    assert 0.0 <= seconds <= maximum
