"""Which cage to use: the strongest that works here, or the one asked for. No silent fall-back, and none at all only on
an explicit flag."""

from __future__ import annotations

from modularrsi.cage.base import Cage
from modularrsi.cage.bubblewrap import BubblewrapCage
from modularrsi.cage.docker import DockerCage
from modularrsi.cage.landlock import LandlockCage
from modularrsi.cage.open import NoCage
from modularrsi.errors import UserError
from modularrsi.sandbox.base import Availability

CAGES: tuple[Cage, ...] = (BubblewrapCage(), DockerCage(), LandlockCage())
"""Strongest first. `tests/modularrsi/cage/test_inside.py` holds each to the same attempts from the inside."""


def choose_cage(allow_none: bool = False, kind: str = "auto") -> Cage:
    """The cage called `kind`, with "auto" the first that works.

    Raises UserError when the one named does not work, and with every reason and fix when none does and `allow_none`
    is off.
    """
    if kind != "auto":
        return _named(kind)
    refused = []
    for cage in CAGES:
        found = cage.available()
        if found.usable:
            return cage
        refused.append(_reason(found))
    if allow_none:
        return NoCage()
    raise UserError(
        "no cage works here for the harness's worker, which runs code that a model wrote. "
        + " | ".join(refused)
        + " | or pass --no-cage to run it without walls"
    )


def cage_sentence(cage: Cage) -> str:
    """The cage in use and what it keeps in; and, unless it is the strongest, why it is not a stronger one."""
    stronger = CAGES[: CAGES.index(cage)] if cage in CAGES else CAGES
    seen = [other.available() for other in stronger]
    instead = [f"not {found.kind}: {found.detail}" for found in seen if not found.usable]
    return "; ".join([f"cage: {cage.kind} ({cage.isolation})", *instead])


def _named(kind: str) -> Cage:
    for cage in CAGES:
        if cage.kind == kind:
            found = cage.available()
            if found.usable:
                return cage
            raise UserError(f"the cage asked for does not work here: {_reason(found)}; or leave out --cage {kind}")
    raise UserError(f"there is no cage {kind!r}; choose one of auto, {', '.join(cage.kind for cage in CAGES)}")


def _reason(found: Availability) -> str:
    return f"{found.kind}: {found.detail}" + (f"; {found.fix}" if found.fix else "")
