"""Records are data classes to everyone who looks, and frozen."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.record import record
from harness.types import Command, Snapshot


@record
class Pair:
    """Two values and a list."""

    left: int
    right: str = "r"
    rest: list[int] = field(default_factory=list)


def test_it_is_made_like_a_data_class() -> None:
    assert Pair(1) == Pair(1, "r", []) == Pair(left=1, rest=[])
    assert Pair(1).rest is not Pair(1).rest
    assert [entry.name for entry in fields(Pair)] == ["left", "right", "rest"]
    assert is_dataclass(Pair)
    assert Pair.__match_args__ == ("left", "right", "rest")


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, "a", [], 4), {}), ((1,), {"left": 2}), ((1,), {"wrong": 2})]
)
def test_wrong_arguments_are_type_errors(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="Pair"):
        Pair(*args, **kwargs)


def test_it_is_frozen() -> None:
    pair = Pair(1)
    with pytest.raises(FrozenInstanceError):
        pair.left = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del pair.left
    with pytest.raises(FrozenInstanceError):
        pair.new = 2  # type: ignore[attr-defined]


def test_it_replaces_prints_copies_and_travels() -> None:
    pair = replace(Pair(1), right="x")
    assert pair == Pair(1, "x")
    assert repr(pair) == "Pair(left=1, right='x', rest=[])"
    assert asdict(pair) == {"left": 1, "right": "x", "rest": []}
    assert copy.deepcopy(pair) == pair
    assert pickle.loads(pickle.dumps(Command("ls\n"))) == Command("ls\n")


def test_it_equals_its_own_kind_only_and_hashes_by_value() -> None:
    assert Command("a") != Snapshot("a")
    assert Command("a") != ("a", 1.0)
    assert len({Command("a"), Command("a", 1.0), Command("b")}) == 2


@given(st.text(), st.floats(allow_nan=False))
def test_what_goes_in_comes_out(keystrokes: str, duration: float) -> None:
    command = Command(keystrokes, duration)
    assert (command.keystrokes, command.duration) == (keystrokes, duration)
    match command:
        case Command(first, second):
            assert (first, second) == (keystrokes, duration)


def test_a_frozen_data_class_may_extend_it_and_a_mutable_one_may_not() -> None:
    @dataclass(frozen=True)
    class Longer(Pair):
        more: int = 0

    assert Longer(1, more=2) == replace(Longer(1), more=2)
    with pytest.raises(TypeError, match="frozen"):
        dataclass(type("Mutable", (Pair,), {"__annotations__": {"more": int}, "more": 0}))
