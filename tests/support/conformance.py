"""Helpers for the tests of the conformance suites."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from harness.conformance.base import run_suite
from harness.registry import tagged


@cache
def failures(fn: Callable[..., Any]) -> dict[str, str]:
    """Case → what it says, for the cases that a tagged function fails. Each function is run once."""
    results = run_suite(tagged(fn).point, fn)
    assert results
    return {result.case: result.message for result in results if not result.ok}
