"""Caps on tokens, money, calls and time, for the whole run and for each role.

A call is reserved at its worst case before it is sent and settled at its true cost afterwards; both are one step, so
that no number of concurrent calls can overrun a cap together. A reservation that would fit but for calls still under
way waits for them: a run is not over because fifty calls *might* each cost the most they can.

A call whose reply never arrived may have been paid: its worst case stays counted, apart from what is known.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from modularrsi.errors import BudgetExhausted
from modularrsi.gateway.caps import NO_CAPS, Budget, Caps
from modularrsi.gateway.clock import Clock, SystemClock
from modularrsi.gateway.spending import Spending
from modularrsi.gateway.usage import TokenUsage

TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The worst case of one attempt. `usd` None = the price is unknown. Compared by identity: each is ended once."""

    role: str
    tokens: int
    usd: Decimal | None


@dataclass(slots=True)
class _Account:
    """One cap's bookkeeping: what is spent, and what calls under way hold."""

    name: str
    caps: Caps
    spent: Spending = field(default_factory=Spending)
    held: dict[int, Reservation] = field(default_factory=dict[int, Reservation])

    def exceeded(self, need: Reservation, with_held: bool) -> str:
        """The first cap that `need` would overrun, in words; "" = none."""
        held = list(self.held.values()) if with_held else []
        calls = self.spent.all_calls + len(held) + 1
        tokens = self.spent.all_tokens + sum(r.tokens for r in held) + need.tokens
        usd = self.spent.all_usd + sum((r.usd or Decimal(0) for r in held), need.usd or Decimal(0))
        caps = self.caps
        if caps.calls is not None and calls > caps.calls:
            return f"calls ({self.spent.all_calls} of {caps.calls} made)"
        if caps.tokens is not None and tokens > caps.tokens:
            return f"tokens ({self.spent.all_tokens} of {caps.tokens} spent, the next call could take {need.tokens})"
        if caps.usd is not None and usd > caps.usd:
            return f"money (${self.spent.all_usd:.4f} of ${caps.usd} spent, the next call could cost ${need.usd:.4f})"
        return ""


class Ledger:
    """The books of one run. Safe to use from several threads; `reserve` waits on the event loop it is called from."""

    def __init__(self, budget: Budget | None = None, clock: Clock | None = None) -> None:
        self._budget = budget or Budget()
        self._clock = clock or SystemClock()
        self._accounts: dict[str, _Account] = {TOTAL: _Account(TOTAL, self._budget.total)}
        self._lock = threading.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self._started, self._earlier = self._clock.now(), 0.0

    @property
    def elapsed(self) -> float:
        """Seconds on the wall clock since this ledger was made, and those of the sessions before."""
        return self._earlier + self._clock.now() - self._started

    def spent(self, role: str = TOTAL) -> Spending:
        """A copy of what is spent by one role, or in total."""
        with self._lock:
            return self._account(role).spent.copy()

    def remaining_seconds(self, role: str) -> float | None:
        """Until the nearest cap in time; None = there is none."""
        caps = [c.seconds for c in (self._budget.total, self._budget.of(role)) if c.seconds is not None]
        return min(caps) - self.elapsed if caps else None

    async def reserve(self, role: str, tokens: int, usd: Decimal | None) -> Reservation:
        """Set the worst case of one call aside, waiting for calls under way if it must.

        Raises BudgetExhausted when it would not fit even if none were under way.
        """
        while True:
            with self._lock:
                reservation = self._try(role, tokens, usd)
                if reservation is not None:
                    return reservation
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def try_reserve(self, role: str, tokens: int, usd: Decimal | None) -> Reservation | None:
        """As `reserve`, but None instead of waiting."""
        with self._lock:
            return self._try(role, tokens, usd)

    def settle(self, reservation: Reservation, usage: TokenUsage, usd: Decimal | None) -> None:
        """A reply came. Tokens or money that the service did not report stay reserved as possibly spent."""
        self._end(reservation, lambda spent: spent.add_reply(usage, usd, reservation.tokens, reservation.usd))

    def keep(self, reservation: Reservation) -> None:
        """The request went out and no reply came: it may have been paid."""
        self._end(reservation, lambda spent: spent.add_possible(reservation.tokens, reservation.usd))

    def release(self, reservation: Reservation) -> None:
        """Nothing was generated: the request never went out, or the service refused it."""
        self._end(reservation, lambda spent: None)

    def state(self) -> dict[str, Any]:
        """As JSON, for `restore`. Calls under way are left out: the journal knows them."""
        with self._lock:
            accounts = {name: account.spent.to_json() for name, account in self._accounts.items()}
        return {"elapsed": self.elapsed, "accounts": accounts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the books of an earlier session (`state`). Replaces what is spent so far."""
        with self._lock:
            self._earlier, self._started = float(state["elapsed"]), self._clock.now()
            for name, spent in state["accounts"].items():
                self._account(name).spent = Spending.from_json(spent)

    def _try(self, role: str, tokens: int, usd: Decimal | None) -> Reservation | None:
        need = Reservation(role, tokens, usd)
        remaining = self.remaining_seconds(role)
        if remaining is not None and remaining <= 0:
            raise BudgetExhausted(f"no call for {role}: the cap on seconds is used up ({self.elapsed:.0f} s)")
        accounts = (self._account(TOTAL), self._account(role))
        for account in accounts:
            if over := account.exceeded(need, with_held=False):
                raise BudgetExhausted(f"no call for {role}: the cap of {account.name} on {over} would be overrun")
        if any(account.exceeded(need, with_held=True) for account in accounts):
            return None
        for account in accounts:
            account.held[id(need)] = need
        return need

    def _end(self, reservation: Reservation, book: Any) -> None:
        with self._lock:
            for account in (self._account(TOTAL), self._account(reservation.role)):
                if account.held.pop(id(reservation), None) is None:
                    raise ValueError("this reservation has ended before")
                book(account.spent)
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    def _account(self, name: str) -> _Account:
        if name not in self._accounts:
            self._accounts[name] = _Account(name, self._budget.of(name) if name != TOTAL else NO_CAPS)
        return self._accounts[name]


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
