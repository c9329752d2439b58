from __future__ import annotations

import asyncio
import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gateways import FakeClock

from modularrsi.errors import BudgetExhausted
from modularrsi.gateway.budget import Ledger
from modularrsi.gateway.caps import read_budget
from modularrsi.gateway.usage import TokenUsage


def _ledger(clock: FakeClock | None = None, **budget: Any) -> Ledger:
    return Ledger(read_budget(budget, "s.toml"), clock or FakeClock())


def _take(ledger: Ledger, role: str = "solver", tokens: int = 10, usd: str | None = "0.1") -> Any:
    return ledger.try_reserve(role, tokens, None if usd is None else Decimal(usd))


@pytest.mark.parametrize(
    "budget",
    [{"tokens": 100}, {"usd": 1.0}, {"calls": 10}, {"solver": {"tokens": 100}}, {"solver": {"usd": 1.0}},
     {"solver": {"calls": 10}}],
)  # fmt: skip
def test_exactly_as_many_fit_as_the_cap_allows(budget: dict[str, Any]) -> None:
    ledger = _ledger(**budget)
    for _ in range(10):
        ledger.settle(_take(ledger), TokenUsage(5, 5), Decimal("0.1"))
    with pytest.raises(BudgetExhausted, match="would be overrun"):
        _take(ledger)


def test_another_role_has_its_own_cap() -> None:
    ledger = _ledger(analyst={"calls": 0})
    with pytest.raises(BudgetExhausted, match="analyst"):
        _take(ledger, "analyst")
    assert _take(ledger, "solver") is not None


def test_a_refusal_says_which_cap_and_how_much() -> None:
    ledger = _ledger(usd=0.15)
    ledger.settle(_take(ledger), TokenUsage(5, 5), Decimal("0.1"))
    with pytest.raises(BudgetExhausted, match=r"total on money \(\$0\.1000 of \$0\.15 spent.*\$0\.1000\)"):
        _take(ledger)


def test_calls_under_way_are_waited_for_and_not_taken_for_spent() -> None:
    ledger = _ledger(tokens=25)
    first, second = _take(ledger), _take(ledger)
    assert _take(ledger) is None
    ledger.settle(first, TokenUsage(1, 1), None)
    assert _take(ledger) is not None
    ledger.release(second)


def test_a_reservation_ends_once() -> None:
    ledger = _ledger()
    reservation = _take(ledger)
    ledger.release(reservation)
    with pytest.raises(ValueError, match="has ended before"):
        ledger.settle(reservation, TokenUsage(1, 1), None)
    assert ledger.spent().calls == 0


def test_fifty_at_once_cannot_overrun_and_use_what_there_is() -> None:
    """Each may cost 0.10 and costs 0.03: all the money that can be spent is spent, and never more."""

    async def run() -> tuple[Ledger, int]:
        ledger, refused = _ledger(usd=1.0), 0

        async def call() -> None:
            nonlocal refused
            try:
                reservation = await ledger.reserve("solver", 10, Decimal("0.10"))
            except BudgetExhausted:
                refused += 1
                return
            held = sum((r.usd or Decimal(0) for r in ledger._accounts["total"].held.values()), Decimal(0))
            assert ledger.spent().usd + held <= 1
            await asyncio.sleep(random.random() / 100)
            ledger.settle(reservation, TokenUsage(5, 5), Decimal("0.03"))

        await asyncio.wait_for(asyncio.gather(*(call() for _ in range(50))), 20)
        return ledger, refused

    ledger, refused = asyncio.run(run())
    assert ledger.spent().usd <= 1
    assert ledger.spent().calls + refused == 50
    assert ledger.spent().calls == 31  # 30 × 0.03 = 0.90 leaves room for one worst case more, 31 does not


@given(st.integers(1, 500), st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60), st.sampled_from("skr"))))
@settings(max_examples=60, deadline=None)
def test_no_history_overruns_a_cap(cap: int, calls: list[tuple[int, int, str]]) -> None:
    ledger = _ledger(tokens=cap)
    for worst, actual, ending in calls:
        try:
            reservation = _take(ledger, tokens=worst)
        except BudgetExhausted:
            continue
        if ending == "s":
            ledger.settle(reservation, TokenUsage(min(worst, actual), 0), None)
        else:
            (ledger.keep if ending == "k" else ledger.release)(reservation)
        assert ledger.spent().all_tokens <= cap


def test_a_waiter_that_is_cancelled_leaves_no_trace() -> None:
    async def run() -> None:
        ledger = _ledger(calls=1)
        first = _take(ledger)
        waiting = asyncio.create_task(ledger.reserve("solver", 1, None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        ledger.release(first)
        assert await ledger.reserve("solver", 1, None)

    asyncio.run(run())


def test_waiters_are_woken_from_another_thread() -> None:
    async def run() -> None:
        ledger = _ledger(calls=1)
        first = _take(ledger)
        waiting = asyncio.create_task(ledger.reserve("solver", 1, None))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(ledger.release, first)
        await asyncio.wait_for(waiting, 10)

    asyncio.run(run())


def test_time_is_up() -> None:
    clock = FakeClock()
    ledger = _ledger(clock, seconds=60, analyst={"seconds": 30})
    assert ledger.remaining_seconds("solver") == 60
    clock.time += 45
    with pytest.raises(BudgetExhausted, match="seconds"):
        _take(ledger, "analyst")
    assert _take(ledger) is not None
    clock.time += 15
    with pytest.raises(BudgetExhausted, match="seconds"):
        _take(ledger)


def test_what_is_not_known_stays_apart_and_counts_against_caps() -> None:
    ledger = _ledger(tokens=100)
    ledger.settle(_take(ledger, tokens=40, usd=None), TokenUsage(), None)
    spent = ledger.spent()
    assert (spent.calls, spent.unpriced_calls, spent.possible_tokens) == (1, 1, 40)
    assert spent.known_usd is None
    ledger.keep(_take(ledger, tokens=40, usd=None))
    assert ledger.spent().possible_calls == 1
    with pytest.raises(BudgetExhausted):
        _take(ledger, tokens=40)


def test_free_is_known() -> None:
    ledger = _ledger()
    ledger.settle(_take(ledger, usd="0"), TokenUsage(5, 5), Decimal(0))
    assert ledger.spent().known_usd == 0


def test_costs_accumulate_exactly() -> None:
    ledger = _ledger(usd=0.3)
    for _ in range(3):
        ledger.settle(_take(ledger, usd="0.1"), TokenUsage(1, 1), Decimal("0.1"))
    assert ledger.spent("solver").usd == Decimal("0.3")


def test_state_goes_on_in_the_next_session() -> None:
    clock = FakeClock()
    ledger = _ledger(clock, usd=1.0)
    ledger.settle(_take(ledger, usd="0.7"), TokenUsage(5, 6, 2, 1), Decimal("0.7"))
    ledger.keep(_take(ledger, "analyst", usd="0.2"))
    clock.time += 12
    state = json.loads(json.dumps(ledger.state(), allow_nan=False))
    resumed = _ledger(FakeClock(), usd=1.0)
    resumed.restore(state)
    assert resumed.elapsed == 12
    assert resumed.spent() == ledger.spent() and resumed.spent("analyst") == ledger.spent("analyst")
    with pytest.raises(BudgetExhausted):
        _take(resumed, usd="0.2")
