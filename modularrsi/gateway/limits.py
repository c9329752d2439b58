"""Requests and tokens per minute, and calls at a time, of one model at one service.

A limit holds for *every* window of 60 seconds, not for one minute on average: a bucket that refills while it is
emptied lets through up to twice its size, and services answer that with 429.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from modularrsi.gateway.clock import Clock, SystemClock

PERIOD = 60.0
_ROUNDING = 1e-6


@dataclass(slots=True)
class Entry:
    """An amount taken at a time (`Clock.now`); it counts until `PERIOD` later."""

    at: float
    amount: int
    counts: bool = True


class Window:
    """A limit on the sum of the amounts taken in any `PERIOD`. None = no limit. An amount above it passes alone."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._sum = 0

    def delay(self, amount: int, now: float) -> float:
        """Seconds until `amount` fits, if nothing else is taken meanwhile; 0 = now."""
        if self._limit is None:
            return 0.0
        self._forget(now)
        excess, free_at = self._sum + amount - self._limit, now
        for entry in self._entries:
            if excess <= 0:
                break
            excess -= entry.amount
            free_at = entry.at + PERIOD
        return max(0.0, free_at - now)

    def take(self, amount: int, now: float) -> Entry:
        entry = Entry(now, amount)
        if self._limit is not None:
            self._entries.append(entry)
            self._sum += amount
        return entry

    def correct(self, entry: Entry, amount: int) -> None:
        """Put an amount right once the true one is known."""
        if self._limit is not None and entry.counts:
            self._sum += amount - entry.amount
        entry.amount = amount

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0].at + PERIOD <= now + _ROUNDING:
            entry = self._entries.popleft()
            entry.counts = False
            self._sum -= entry.amount


class Limiter:
    """All three limits of one model. `slots` bounds the calls at a time; `admit` each request that is sent."""

    def __init__(
        self, requests_per_minute: int | None, tokens_per_minute: int | None, concurrency: int,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self.slots = asyncio.Semaphore(concurrency)
        self._requests, self._tokens = Window(requests_per_minute), Window(tokens_per_minute)
        self._clock = clock or SystemClock()
        self._queue = asyncio.Lock()

    async def admit(self, tokens: int) -> Entry:
        """Wait, in the order of asking, until one request of `tokens` tokens is within both limits; take it."""
        async with self._queue:
            while delay := self._delay(tokens):
                await self._clock.sleep(delay)
            now = self._clock.now()
            self._requests.take(1, now)
            return self._tokens.take(tokens, now)

    def correct(self, entry: Entry, tokens: int) -> None:
        """Replace the reckoned tokens of an admitted request by those that the service counted."""
        self._tokens.correct(entry, tokens)

    def _delay(self, tokens: int) -> float:
        now = self._clock.now()
        return max(self._requests.delay(1, now), self._tokens.delay(tokens, now))
