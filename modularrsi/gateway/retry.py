"""Another attempt, where it can help: after 408, 409, 429, 5xx, a lost connection, a time-out, an unreadable reply.

The client's own retries are switched off, so that attempts do not multiply. `Retry-After` is honoured up to a bound.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from modularrsi.gateway.clock import Clock
from modularrsi.gateway.service import ServiceFault

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """attempts     at most, the first one included
    total_sec    no attempt starts later than this after the first
    first_sec    wait before the second attempt; doubles each time, less up to a quarter by chance
    longest_sec  bound of a wait, whatever the service asks for
    """

    attempts: int = 5
    total_sec: float = 900.0
    first_sec: float = 1.0
    longest_sec: float = 60.0


async def with_retries(
    attempt: Callable[[int], Awaitable[T]],
    policy: RetryPolicy,
    clock: Clock,
    on_retry: Callable[[int, float, ServiceFault], None],
) -> T:
    """Call `attempt(1)`, `attempt(2)` … until one succeeds; its last ServiceFault if none does.

    `on_retry(number, wait, fault)` hears of each attempt that failed and will be followed by another after `wait`
    seconds. Anything but a ServiceFault passes at once.
    """
    started = clock.now()

    def stop(state: RetryCallState) -> bool:
        late = clock.now() - started + state.upcoming_sleep > policy.total_sec
        return late or state.attempt_number >= policy.attempts

    def announce(state: RetryCallState) -> None:
        on_retry(state.attempt_number, state.upcoming_sleep, _fault(state))

    retrying = AsyncRetrying(
        sleep=clock.sleep,
        stop=stop,
        wait=lambda state: _wait(policy, state.attempt_number, _fault(state)),
        retry=retry_if_exception(lambda error: isinstance(error, ServiceFault) and error.retry),
        before_sleep=announce,
        reraise=True,
    )
    number = 0

    async def next_attempt() -> T:
        nonlocal number
        number += 1
        return await attempt(number)

    return await retrying(next_attempt)


def _wait(policy: RetryPolicy, number: int, fault: ServiceFault) -> float:
    if fault.retry_after is not None:
        return min(fault.retry_after, policy.longest_sec)
    wait = min(policy.first_sec * 2 ** (number - 1), policy.longest_sec)
    return wait * random.uniform(0.75, 1.0)


def _fault(state: RetryCallState) -> ServiceFault:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, ServiceFault):
        raise TypeError("only a ServiceFault is retried")
    return error
