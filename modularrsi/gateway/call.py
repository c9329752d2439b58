"""One logical call: its attempts, each reserved, recorded, sent and read; then priced, settled and recorded, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from modularrsi.digest import digest_value
from modularrsi.gateway.budget import Ledger, Reservation
from modularrsi.gateway.classify import ParsedReply, read_reply
from modularrsi.gateway.clock import Clock
from modularrsi.gateway.journal import CallOutcome, CallStart, Journal, OutcomeKind
from modularrsi.gateway.limits import Limiter
from modularrsi.gateway.messages import prompt_token_bound
from modularrsi.gateway.prices import Price
from modularrsi.gateway.retry import RetryPolicy, with_retries
from modularrsi.gateway.service import Service, ServiceFault, ServiceRequest
from modularrsi.gateway.settings import ModelSettings
from modularrsi.gateway.spending import Spending
from modularrsi.gateway.usage import NOT_REPORTED, TokenUsage


@dataclass(frozen=True, slots=True)
class Line:
    """All that one role needs for a call."""

    role: str
    settings: ModelSettings
    service: Service
    limiter: Limiter
    price: Price | None


@dataclass(frozen=True, slots=True)
class Desk:
    """What all calls of a run share. `redact` takes the run's own keys out of what a service says."""

    run_id: str
    ledger: Ledger
    journal: Journal
    clock: Clock
    redact: Callable[[str], str]
    on_retry: Callable[[Call, int, float, str, str], None]


@dataclass(slots=True)
class Call:
    """The question, and the reckoning of its attempts so far.

    `digest` is of role, model, parameters and messages: the same question has the same digest at any address. `begun`
    and `sent` (None = no attempt is under way) are times of the clock.
    """

    line: Line
    messages: list[dict[str, str]]
    scope: str
    ordinal: int
    purpose: str
    attempts: int = 0
    spending: Spending = field(default_factory=Spending)
    begun: float = 0.0
    sent: float | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        question = {"parameters": self.line.settings.parameters(), "messages": self.messages}
        self.digest = digest_value({"role": self.line.role, **question})

    def lost(self, now: float) -> float:
        """Seconds before the attempt that is under way, or that was answered: waits for limits, failed attempts, pauses
        between them. All of its seconds while there is none."""
        return (now if self.sent is None else self.sent) - self.begun

    def worst_case(self) -> tuple[int, Decimal | None]:
        """(tokens, US dollars or None for an unknown price) that one attempt can take at most."""
        settings = self.line.settings
        prompt = prompt_token_bound(self.messages)
        if settings.context_tokens is not None:
            prompt = min(prompt, settings.context_tokens)
        output = settings.max_output_tokens or 0
        return prompt + output, self.line.price.worst(prompt, output) if self.line.price else None

    def headers(self, run_id: str) -> Mapping[str, str]:
        """One idempotency key for all attempts, in this session and the next; the place of the call for a simulator."""
        key = digest_value([run_id, self.scope, self.ordinal, self.digest])
        headers = {"Idempotency-Key": f"modularrsi-{key[:40]}"}
        if self.line.settings.simulated:
            place = {"Scope": self.scope, "Ordinal": str(self.ordinal), "Role": self.line.role, "Purpose": self.purpose}
            headers |= {f"X-ModularRSI-{name}": quote(value, safe="/:.,=@") for name, value in place.items()}
        return headers


async def ask(call: Call, desk: Desk) -> CallOutcome:
    """Put the question until it is answered or given up; the outcome is recorded before it is returned.

    Raises BudgetExhausted when an attempt does not fit the budget; what earlier attempts may have cost stays booked.
    """
    settings = call.line.settings
    policy = RetryPolicy(attempts=settings.retries + 1, total_sec=settings.retry_total_sec)
    started = desk.clock.now()

    def on_retry(number: int, wait: float, fault: ServiceFault) -> None:
        desk.on_retry(call, number, wait, fault.cause, desk.redact(str(fault)))

    async with call.line.limiter.slots:
        try:
            reply, reservation, latency = await with_retries(
                lambda number: _attempt(call, desk, number), policy, desk.clock, on_retry
            )
        except ServiceFault as fault:
            outcome = _given_up(call, desk, fault, desk.clock.now() - started)
        else:
            # Priced here and not within an attempt: a fault of pricing must never ask, and pay, again.
            outcome = _answered(call, desk, reply, reservation, latency)
    desk.journal.commit(outcome)
    return outcome


async def _attempt(call: Call, desk: Desk, number: int) -> tuple[ParsedReply, Reservation, float]:
    tokens, usd = call.worst_case()
    reservation = await desk.ledger.reserve(call.line.role, tokens, usd)
    try:
        admission = await call.line.limiter.admit(tokens)
        desk.journal.begin(_start(call, desk, number, reservation))
    except BaseException:
        desk.ledger.release(reservation)
        raise
    call.attempts = number
    call.sent = started = desk.clock.now()
    try:
        reply = read_reply(await call.line.service.send(_request(call, desk)))
    except ServiceFault as fault:
        call.sent = None
        _book_fault(call, desk, reservation, fault)
        raise
    except BaseException:  # cancelled: the request is out, and its price is not known to be nothing
        desk.ledger.keep(reservation)
        raise
    if reply.usage.total is not None:
        call.line.limiter.correct(admission, reply.usage.total)
    return reply, reservation, desk.clock.now() - started


def _book_fault(call: Call, desk: Desk, reservation: Reservation, fault: ServiceFault) -> None:
    if fault.maybe_paid:
        desk.ledger.keep(reservation)
        call.spending.add_possible(reservation.tokens, reservation.usd)
    else:
        desk.ledger.release(reservation)


def _request(call: Call, desk: Desk) -> ServiceRequest:
    settings = call.line.settings
    left = desk.ledger.remaining_seconds(call.line.role)
    timeout = settings.timeout_sec if left is None else max(0.1, min(settings.timeout_sec, left))
    return ServiceRequest(call.messages, settings.parameters(), call.headers(desk.run_id), timeout)


def _start(call: Call, desk: Desk, number: int, reservation: Reservation) -> CallStart:
    return CallStart(
        scope=call.scope,
        ordinal=call.ordinal,
        digest=call.digest,
        role=call.line.role,
        model=call.line.settings.model,
        purpose=call.purpose,
        attempt=number,
        tokens=reservation.tokens,
        usd=reservation.usd,
        elapsed=desk.ledger.elapsed,
    )


def _answered(call: Call, desk: Desk, reply: ParsedReply, reservation: Reservation, latency: float) -> CallOutcome:
    cost = call.line.price.cost(reply.usage) if call.line.price else None
    desk.ledger.settle(reservation, reply.usage, cost)
    call.spending.add_reply(reply.usage, cost, reservation.tokens, reservation.usd)
    kinds: dict[str, OutcomeKind] = {"length": "truncated", "content_filter": "filtered"}
    return _outcome(
        call, desk, kinds.get(reply.finish, "reply"), latency,
        text=desk.redact(reply.text), reasoning=desk.redact(reply.reasoning), usage=reply.usage, cost_usd=cost,
        finish=reply.finish, model=reply.model or call.line.settings.model,
    )  # fmt: skip


def _given_up(call: Call, desk: Desk, fault: ServiceFault, latency: float) -> CallOutcome:
    kind: OutcomeKind = "overflow" if fault.cause == "context_overflow" else "failed"
    return _outcome(call, desk, kind, latency, cause=fault.cause, message=desk.redact(str(fault)))


def _outcome(
    call: Call, desk: Desk, kind: OutcomeKind, latency: float, *, text: str = "", reasoning: str = "",
    usage: TokenUsage = NOT_REPORTED, cost_usd: Decimal | None = None, finish: str = "", model: str = "",
    cause: str = "", message: str = "",
) -> CallOutcome:  # fmt: skip
    rest: dict[str, Any] = {"finish": finish, "cause": cause, "message": message}
    return CallOutcome(
        scope=call.scope,
        ordinal=call.ordinal,
        digest=call.digest,
        role=call.line.role,
        kind=kind,
        attempts=call.attempts,
        spending=call.spending,
        elapsed=desk.ledger.elapsed,
        latency_sec=latency,
        model=model or call.line.settings.model,
        text=text,
        reasoning=reasoning,
        usage=usage,
        cost_usd=cost_usd,
        **rest,
    )
