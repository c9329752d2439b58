"""The door to the models: `complete` takes messages and nothing else.

Model, parameters, budgets and time-outs are the engine's settings of the role, whatever the caller's worker wishes.
Each call is looked up in the journal first, so that a resumed run pays for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from modularrsi.errors import ModelServiceError, UserError
from modularrsi.gateway.budget import Ledger
from modularrsi.gateway.call import Call, Desk, Line, ask
from modularrsi.gateway.clock import Clock, SystemClock
from modularrsi.gateway.errors import ContentFilteredError, ContextOverflowError, ReplayMiss, ReplyTruncatedError
from modularrsi.gateway.journal import CallOutcome, Journal, MemoryJournal
from modularrsi.gateway.messages import ChatMessage, clean, wire
from modularrsi.gateway.service import ServiceFault, ServiceRequest
from modularrsi.gateway.settings import UNKNOWN_CONTEXT
from modularrsi.gateway.usage import TokenUsage

Mode = Literal["live", "record", "replay"]

# A rollout acts on a failure that it was told of, so a resumed rollout must be told the same. Every other role asks on
# behalf of the engine, which stops at a failure and, when it is resumed, wants to know whether it has passed.
STICKY = frozenset({"solver"})


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """One reply. `cost_usd` None = unknown, 0.0 = free. `replayed`: it came from the journal and cost nothing now;
    `cost_usd` and `latency_sec` are then those of the first time."""

    text: str
    reasoning: str
    usage: TokenUsage
    cost_usd: float | None
    model: str
    finish_reason: str
    latency_sec: float
    replayed: bool


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """An attempt failed and another follows after `wait_sec` seconds. There is no key in `message`."""

    role: str
    scope: str
    ordinal: int
    attempt: int
    wait_sec: float
    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class Check:
    """What `Gateway.check` found. `listed`: whether the service lists the model; None = it lists none."""

    role: str
    model: str
    url: str
    ok: bool
    detail: str
    listed: bool | None = None


def _ignore(event: GatewayEvent) -> None:
    """Nobody listens."""


class Gateway:
    """Answers `complete` for every role that has a line.

    mode   "live": a call that the journal holds is answered from it; others are sent and recorded
           "record": every call is sent and recorded, whatever the journal holds
           "replay": nothing is ever sent; a call that the journal does not hold raises ReplayMiss

    Made by `modularrsi.gateway.connect.connect`. Belongs to one event loop; close it after use.
    """

    def __init__(
        self,
        lines: Mapping[str, Line],
        *,
        run_id: str,
        ledger: Ledger | None = None,
        journal: Journal | None = None,
        mode: Mode = "live",
        clock: Clock | None = None,
        redact: Callable[[str], str] = str,
        on_event: Callable[[GatewayEvent], None] = _ignore,
    ) -> None:
        self._lines, self._mode, self._on_event = dict(lines), mode, on_event
        self.ledger = ledger or Ledger()
        self._lost: dict[str, float] = {}
        self._under_way: dict[str, Call] = {}
        self._desk = Desk(
            run_id, self.ledger, journal or MemoryJournal(), clock or SystemClock(), redact, self._announce
        )

    def model_name(self, role: str) -> str:
        return self._line(role).settings.model

    def simulated(self, role: str) -> bool:
        """Whether the product's own simulator answers for it."""
        return self._line(role).settings.simulated

    def context_tokens(self, role: str) -> int:
        """The model's window; a million when the settings do not say."""
        return self._line(role).settings.context_tokens or UNKNOWN_CONTEXT

    def output_tokens(self, role: str) -> int | None:
        """The longest reply that is asked for; None when the settings do not say."""
        return self._line(role).settings.max_output_tokens

    async def complete(
        self, role: str, messages: Sequence[ChatMessage], *, scope: str, ordinal: int, purpose: str
    ) -> GatewayReply:
        """Ask the model of `role`. (`scope`, `ordinal`) names the call within the run; `purpose` is a label only.

        Raises ContextOverflowError, ReplyTruncatedError, ContentFilteredError, ModelServiceError, BudgetExhausted;
        ReplayMiss in replay.
        """
        call = Call(self._line(role), wire(messages), clean(scope), ordinal, clean(purpose))
        recorded = self._recorded(call)
        if recorded is not None:
            return _hand_on(recorded, replayed=True)
        call.begun = self._desk.clock.now()
        self._under_way[call.scope] = call
        try:
            outcome = await ask(call, self._desk)
        finally:
            self._under_way.pop(call.scope, None)
            self._lost[call.scope] = self.lost(call.scope) + call.lost(self._desk.clock.now())
        return _hand_on(outcome, replayed=False)

    def lost(self, scope: str) -> float:
        """Seconds that the calls of `scope` have taken so far beyond the attempts that were answered or still may be:
        waits for limits, attempts that failed, pauses between them. Whoever has a deadline may not be charged for them.
        One call at a time in a scope.
        """
        call = self._under_way.get(scope)
        return self._lost.get(scope, 0.0) + (call.lost(self._desk.clock.now()) if call else 0.0)

    async def check(self, role: str, *, ask_model: bool = False) -> Check:
        """For `doctor`: is the service there, does it take the key, does it know the model? Never raises for a fault
        of the service. Free, unless `ask_model` allows a call of one output token, which is not in the books."""
        line = self._line(role)
        settings = line.settings
        try:
            listed = settings.model in names if (names := await line.service.models(30.0)) else None
            if ask_model:
                await self._ask_one_token(line)
        except ServiceFault as fault:
            return Check(role, settings.model, settings.url, False, self._desk.redact(f"{fault.cause}: {fault}"))
        detail = {True: "reached, model listed", None: "reached, no list of models"}.get(
            listed, f"reached, but {settings.model} is not listed"
        )
        return Check(role, settings.model, settings.url, listed is not False or ask_model, detail, listed)

    async def close(self) -> None:
        for service in {id(line.service): line.service for line in self._lines.values()}.values():
            await service.close()

    async def __aenter__(self) -> Gateway:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _line(self, role: str) -> Line:
        if role not in self._lines:
            raise UserError(f"no model is set for the role {role}; add a table models.{role} or models.default")
        return self._lines[role]

    def _recorded(self, call: Call) -> CallOutcome | None:
        if self._mode == "record":
            return None
        found = self._desk.journal.lookup(call.scope, call.ordinal, call.digest)
        if self._mode == "replay":
            if found is None:
                raise ReplayMiss(f"the recording holds no call {call.ordinal} of {call.scope} with these messages")
            return found
        if found is not None and found.kind == "failed" and (call.line.role not in STICKY or found.cause == "auth"):
            return None
        return found

    async def _ask_one_token(self, line: Line) -> None:
        parameters = dict(line.settings.parameters())
        for name in ("max_tokens", "max_completion_tokens"):
            parameters.pop(name, None)
        limited = {**parameters, line.settings.output_limit_name: 1}
        await line.service.send(ServiceRequest([{"role": "user", "content": "Hi"}], limited, {}, 60.0))

    def _announce(self, call: Call, attempt: int, wait: float, cause: str, message: str) -> None:
        self._on_event(GatewayEvent(call.line.role, call.scope, call.ordinal, attempt, wait, cause, message))


def _hand_on(outcome: CallOutcome, replayed: bool) -> GatewayReply:
    """The reply, or the typed error that stands for it."""
    cost = None if outcome.cost_usd is None else float(outcome.cost_usd)
    rest = (outcome.text, outcome.usage, cost, outcome.model)
    if outcome.kind == "truncated":
        raise ReplyTruncatedError("the reply hit the output limit", *rest)
    if outcome.kind == "filtered":
        raise ContentFilteredError("the service's content filter withheld the reply", *rest)
    if outcome.kind == "overflow":
        raise ContextOverflowError(outcome.message)
    if outcome.kind == "failed":
        raise ModelServiceError(outcome.message, outcome.cause)
    return GatewayReply(
        text=outcome.text,
        reasoning=outcome.reasoning,
        usage=outcome.usage,
        cost_usd=cost,
        model=outcome.model,
        finish_reason=outcome.finish,
        latency_sec=outcome.latency_sec,
        replayed=replayed,
    )
