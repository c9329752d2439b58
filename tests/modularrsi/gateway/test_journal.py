from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.errors import UserError
from modularrsi.gateway.journal import (
    CallOutcome,
    CallStart,
    FileJournal,
    Journal,
    MemoryJournal,
    line_from_json,
    line_to_json,
)
from modularrsi.gateway.resume import books
from modularrsi.gateway.spending import Spending
from modularrsi.gateway.usage import TokenUsage

COUNT = st.integers(0, 10**9)
MONEY = st.decimals(0, 1000, allow_nan=False, places=9)


def start(ordinal: int = 0, attempt: int = 1, **changes: Any) -> CallStart:
    fields = {"scope": "s", "ordinal": ordinal, "digest": "d", "role": "solver", "model": "m", "purpose": "turn",
              "attempt": attempt, "tokens": 100, "usd": Decimal("0.5"), "elapsed": 1.5}  # fmt: skip
    return CallStart(**(fields | changes))


def outcome(ordinal: int = 0, attempts: int = 1, **changes: Any) -> CallOutcome:
    spending = Spending(calls=1, prompt_tokens=7, completion_tokens=3, usd=Decimal("0.01"))
    fields = {"scope": "s", "ordinal": ordinal, "digest": "d", "role": "solver", "kind": "reply", "attempts": attempts,
              "spending": spending, "elapsed": 2.5, "latency_sec": 0.5, "model": "m", "text": f"text {ordinal}",
              "usage": TokenUsage(7, 3), "cost_usd": Decimal("0.01"), "finish": "stop"}  # fmt: skip
    return CallOutcome(**(fields | changes))


@pytest.fixture(params=["memory", "file"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return MemoryJournal() if request.param == "memory" else FileJournal(tmp_path / "runs" / "calls.jsonl")


def test_only_the_very_same_call_is_found(journal: Journal) -> None:
    journal.begin(start())
    assert journal.lookup("s", 0, "d") is None
    journal.commit(outcome())
    assert journal.lookup("s", 0, "d") == outcome()
    for other in (("t", 0, "d"), ("s", 1, "d"), ("s", 0, "e")):
        assert journal.lookup(*other) is None
    assert list(journal.history()) == [start(), outcome()]


def test_the_latest_outcome_counts(journal: Journal) -> None:
    journal.commit(outcome(text="first"))
    journal.commit(outcome(text="second"))
    found = journal.lookup("s", 0, "d")
    assert found is not None and found.text == "second"


def test_a_file_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    first = FileJournal(path)
    for ordinal in range(3):
        first.begin(start(ordinal))
        first.commit(outcome(ordinal))
    first.close()
    second = FileJournal(path)
    second.commit(outcome(3))
    for ordinal in range(4):
        found = second.lookup("s", ordinal, "d")
        assert found is not None and found.text == f"text {ordinal}"
    assert len(list(second.history())) == 7


def test_a_torn_last_line_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    journal = FileJournal(path)
    journal.commit(outcome(0))
    whole = path.stat().st_size
    journal.begin(start(1))
    journal.close()
    data = path.read_bytes()
    for length in range(whole, len(data), 11):
        path.write_bytes(data[:length])
        reopened = FileJournal(path)
        assert list(reopened.history()) == [outcome(0)]
        reopened.commit(outcome(2))
        assert list(reopened.history()) == [outcome(0), outcome(2)]
        reopened.close()


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"type": "start"}\n')
    with pytest.raises(UserError, match=r"calls\.jsonl: line 1 is damaged"):
        FileJournal(path)


@given(
    st.builds(
        CallOutcome,
        scope=st.text(), ordinal=COUNT, digest=st.text(), role=st.text(),
        kind=st.sampled_from(["reply", "truncated", "filtered", "overflow", "failed"]), attempts=COUNT,
        spending=st.builds(Spending, COUNT, COUNT, COUNT, COUNT, COUNT, MONEY, COUNT, COUNT, COUNT, MONEY),
        elapsed=st.floats(0, 1e9), latency_sec=st.floats(0, 1e9), model=st.text(), text=st.text(), reasoning=st.text(),
        usage=st.builds(TokenUsage, *[st.none() | COUNT] * 5), cost_usd=st.none() | MONEY,
        finish=st.text(), cause=st.text(), message=st.text(),
    )
)  # fmt: skip
def test_outcomes_survive_json(entry: CallOutcome) -> None:
    assert line_from_json(json.loads(json.dumps(line_to_json(entry), allow_nan=False))) == entry


@pytest.mark.parametrize("usd", [None, Decimal("1E-9"), Decimal(0)])
def test_starts_survive_json(usd: Decimal | None) -> None:
    entry = start(usd=usd)
    assert line_from_json(json.loads(json.dumps(line_to_json(entry)))) == entry


def _spent(entries: list[CallStart | CallOutcome], name: str = "total") -> Spending:
    return Spending.from_json(books(entries)["accounts"][name])


def test_books_add_up_what_is_recorded() -> None:
    entries = [start(0), outcome(0), start(1, role="analyst"), outcome(1, role="analyst"), start(2), outcome(2)]
    assert (_spent(entries).calls, _spent(entries).usd) == (3, Decimal("0.03"))
    assert (_spent(entries, "analyst").calls, _spent(entries, "solver").calls) == (1, 2)
    assert _spent(entries).possible_calls == 0
    assert books(entries)["elapsed"] == 2.5


def test_a_start_without_outcome_may_have_been_paid() -> None:
    spent = _spent([start(0), outcome(0), start(1)])
    assert (spent.calls, spent.possible_calls, spent.possible_tokens, spent.possible_usd) == (1, 1, 100, Decimal("0.5"))


def test_it_stays_so_when_the_call_is_asked_again() -> None:
    spent = _spent([start(0), start(0), start(0, attempt=2), outcome(0, attempts=2)])
    assert (spent.calls, spent.possible_calls) == (1, 1)


def test_an_outcome_that_was_recorded_elsewhere_takes_no_start_away() -> None:
    assert _spent([start(0), outcome(1, attempts=5), start(1), outcome(1, attempts=0)]).possible_calls == 2


def test_no_history_no_books() -> None:
    assert books([]) == {"elapsed": 0.0, "accounts": {}}
