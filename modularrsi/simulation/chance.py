"""Chance without state: the same seed and place always draw the same number, whatever is drawn in between.

So concurrency cannot change a reply, and two harnesses that are compared under one seed meet the same luck at the same
place (common random numbers: the paired difference is not drowned by the noise of the draws).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Chance:
    """Draws for one seed below one place ("the rollout", "the call")."""

    seed: int
    place: tuple[str, ...] = ()

    def at(self, *place: object) -> Chance:
        """The same seed, further down."""
        return Chance(self.seed, (*self.place, *map(str, place)))

    def draw(self, *place: object) -> float:
        """Uniform in [0, 1)."""
        name = "\0".join((str(self.seed), *self.place, *map(str, place)))
        return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:7], "big") / 2**56

    def happens(self, probability: float, *place: object) -> bool:
        """True with this probability: never at 0, always at 1."""
        return self.draw(*place) < probability

    def pick(self, items: Sequence[Item], *place: object) -> Item:
        """One of the items, each as likely. Raises IndexError when there is none."""
        return items[int(self.draw(*place) * len(items))]

    def weighted(self, items: Sequence[tuple[Item, float]], *place: object) -> Item:
        """One of the items by weight (0 = never). Raises IndexError when no weight is positive."""
        possible = [(item, weight) for item, weight in items if weight > 0]
        left = self.draw(*place) * sum(weight for _, weight in possible)
        for item, weight in possible:
            left -= weight
            if left < 0:
                return item
        return possible[-1][0]
