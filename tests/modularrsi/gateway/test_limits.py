from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gateways import FakeClock

from modularrsi.gateway.limits import PERIOD, Limiter


def _times(limiter: Limiter, clock: FakeClock, amounts: list[int], gaps: list[float] | None = None) -> list[float]:
    async def run() -> list[float]:
        times: list[float] = []
        for number, amount in enumerate(amounts):
            clock.time += gaps[number] if gaps else 0
            await limiter.admit(amount)
            times.append(clock.now())
        return times

    return asyncio.run(run())


def test_no_limit_no_wait() -> None:
    clock = FakeClock()
    assert set(_times(Limiter(None, None, 1, clock), clock, [10**9] * 50)) == {clock.now()}


def test_requests_per_minute() -> None:
    clock = FakeClock()
    start = clock.now()
    times = _times(Limiter(3, None, 1, clock), clock, [1] * 7)
    assert [round(time - start) for time in times] == [0, 0, 0, 60, 60, 60, 120]


def test_an_amount_beyond_the_limit_passes_alone() -> None:
    clock = FakeClock()
    start = clock.now()
    times = _times(Limiter(None, 100, 1, clock), clock, [50, 500, 10])
    assert [round(time - start) for time in times] == [0, 60, 120]


@given(
    st.integers(1, 4), st.integers(50, 200),
    st.lists(st.tuples(st.integers(0, 200), st.floats(0, 70, allow_nan=False)), max_size=20),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_no_window_of_a_minute_holds_more(requests: int, tokens: int, calls: list[tuple[int, float]]) -> None:
    clock = FakeClock()
    amounts = [min(amount, tokens) for amount, _ in calls]
    times = _times(Limiter(requests, tokens, 1, clock), clock, amounts, [gap for _, gap in calls])
    for start in times:
        inside = [i for i, time in enumerate(times) if start <= time < start + PERIOD - 1e-3]
        assert len(inside) <= requests
        assert sum(amounts[i] for i in inside) <= tokens


def test_the_true_count_gives_room_back() -> None:
    async def run() -> None:
        clock = FakeClock()
        limiter = Limiter(None, 100, 1, clock)
        entry = await limiter.admit(100)
        limiter.correct(entry, 10)
        await limiter.admit(90)
        assert clock.slept == []
        await limiter.admit(1)
        assert clock.slept == [pytest.approx(60)]
        limiter.correct(entry, 100)  # long forgotten: must not count again
        await limiter.admit(90)
        assert len(clock.slept) == 1

    asyncio.run(run())


def test_waiting_is_in_order_and_cancelling_holds_nobody_up() -> None:
    async def run() -> list[int]:
        clock = FakeClock()
        limiter = Limiter(1, None, 1, clock)
        order: list[int] = []

        async def call(number: int) -> None:
            await limiter.admit(1)
            order.append(number)

        tasks = [asyncio.create_task(call(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert asyncio.run(run()) == [0, 1, 3, 4]
