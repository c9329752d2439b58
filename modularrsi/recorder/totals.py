"""Sums of what calls took. One unknown part makes the sum unknown: None, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

FIELDS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


class Totals:
    """Of every reply that came: turns, side calls, truncated replies."""

    def __init__(self) -> None:
        self.calls = 0
        self._parts: dict[str, list[float | None]] = {name: [] for name in FIELDS}

    def add(self, metrics: Mapping[str, Any]) -> None:
        self.calls += 1
        for name in FIELDS:
            self._parts[name].append(metrics.get(name))

    def get(self, name: str) -> Any:
        """Tokens as int, cost as float (summed exactly, then rounded once)."""
        known = [part for part in self._parts[name] if part is not None]
        if len(known) < self.calls:
            return None
        return math.fsum(known) if name == "cost_usd" else int(sum(known))

    def to_json(self) -> dict[str, Any]:
        return {**{name: self.get(name) for name in FIELDS}, "calls": self.calls}

    def final_metrics(self, steps: int) -> dict[str, Any]:
        """ATIF's `final_metrics`."""
        return {**{f"total_{name}": self.get(name) for name in FIELDS}, "total_steps": steps}
