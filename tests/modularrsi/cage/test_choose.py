"""Which cage is taken, what is said of it, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from modularrsi.cage.choose import CAGES, cage_sentence, choose_cage
from modularrsi.cage.open import NoCage
from modularrsi.errors import UserError
from modularrsi.sandbox.base import Availability


@dataclass
class Made:
    """A cage that works or does not, for choosing only."""

    kind: str
    usable: bool
    isolation: str = "walls"

    def available(self) -> Availability:
        return Availability(self.kind, self.usable, "no such thing here", "install it")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"choosing asked for {name}")


def cages(monkeypatch: pytest.MonkeyPatch, **usable: bool) -> None:
    monkeypatch.setattr("modularrsi.cage.choose.CAGES", tuple(Made(kind, works) for kind, works in usable.items()))


def test_the_order_is_from_strong_to_weak() -> None:
    assert [cage.kind for cage in CAGES] == ["bubblewrap", "docker", "landlock"]


def test_the_strongest_that_works_is_taken_and_what_is_missed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cages(monkeypatch, bubblewrap=True, docker=True)
    assert choose_cage().kind == "bubblewrap"
    assert cage_sentence(choose_cage()) == "cage: bubblewrap (walls)"
    cages(monkeypatch, bubblewrap=False, docker=True, landlock=True)
    assert choose_cage().kind == "docker"
    assert cage_sentence(choose_cage()) == "cage: docker (walls); not bubblewrap: no such thing here"


def test_without_a_cage_the_engine_refuses_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cages(monkeypatch, bubblewrap=False, landlock=False)
    with pytest.raises(UserError, match=r"bubblewrap: no such thing here; install it.*landlock.*--no-cage"):
        choose_cage()
    cage = choose_cage(allow_none=True)
    assert isinstance(cage, NoCage)
    assert cage.isolation.startswith("none")
    assert "not landlock" in cage_sentence(cage)


def test_a_cage_asked_for_by_name_is_that_one_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cages(monkeypatch, bubblewrap=True, docker=False, landlock=True)
    assert choose_cage(kind="landlock").kind == "landlock"
    with pytest.raises(UserError, match=r"docker: no such thing here; install it"):
        choose_cage(allow_none=True, kind="docker")
    with pytest.raises(UserError, match=r"'chroot'.*bubblewrap, docker, landlock"):
        choose_cage(kind="chroot")
