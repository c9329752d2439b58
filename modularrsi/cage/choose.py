"""Which cage to use: the strongest that works here. No silent fall-back, and none at all only on an explicit flag."""

from __future__ import annotations

from modularrsi.cage.base import Cage
from modularrsi.cage.bubblewrap import BubblewrapCage
from modularrsi.cage.open import NoCage
from modularrsi.errors import UserError

CAGES: tuple[Cage, ...] = (BubblewrapCage(),)
"""Strongest first."""


def choose_cage(allow_none: bool = False) -> Cage:
    """The first cage that works. Raises UserError with every reason and fix when none does and `allow_none` is off."""
    refused = []
    for cage in CAGES:
        found = cage.available()
        if found.usable:
            return cage
        refused.append(f"{cage.kind}: {found.detail}; {found.fix}")
    if allow_none:
        return NoCage()
    raise UserError(
        "no cage works here for the harness's worker, which runs code that a model wrote. "
        + " | ".join(refused)
        + " | or pass --no-cage to run it without walls"
    )
