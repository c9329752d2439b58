"""The real client against a real server that shows every fault."""

from __future__ import annotations

import asyncio
import socket
import time
from email.utils import formatdate
from typing import Any

import pytest
from support.gateways import FakeClock, gateway_for, user
from support.openai_server import OpenAIServer, Reply, overflow

from modularrsi.errors import ModelServiceError
from modularrsi.gateway.errors import ContentFilteredError, ContextOverflowError, ReplyTruncatedError
from modularrsi.gateway.gateway import GatewayEvent, GatewayReply
from modularrsi.gateway.spending import Spending

KEY = "sk-" + "canary-0123456789abcdefghij"


class Asked:
    """One call of a gateway against a script, and everything that can be seen of it."""

    def __init__(self, script: list[Reply | str], model: dict[str, Any] | None = None, key: str | None = None) -> None:
        self.events: list[GatewayEvent] = []
        self.clock = FakeClock()
        self.reply: GatewayReply | None = None
        self.error: Exception | None = None
        with OpenAIServer(script, key=key) as server:
            asyncio.run(self._ask(server.url, model or {}))
            self.requests, self.generated, self.repeats = server.requests, server.generated, server.repeats

    async def _ask(self, url: str, model: dict[str, Any]) -> None:
        async with gateway_for(url, model=model, clock=self.clock, on_event=self.events.append) as gateway:
            try:
                self.reply = await gateway.complete("solver", user(), scope="s", ordinal=0, purpose="turn")
            except (ModelServiceError, ContextOverflowError, ReplyTruncatedError) as error:
                self.error = error
            self.spent: Spending = gateway.ledger.spent()

    @property
    def text(self) -> str:
        assert self.reply is not None, self.error
        return self.reply.text

    @property
    def cause(self) -> str:
        assert isinstance(self.error, ModelServiceError), self.error
        return self.error.cause


def test_a_good_reply() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    asked = Asked([Reply("hello", reasoning="because", model="m-2025", usage=usage)])
    assert asked.reply is not None
    assert (asked.text, asked.reply.reasoning, asked.reply.model) == ("hello", "because", "m-2025")
    assert (asked.reply.finish_reason, asked.reply.replayed, asked.reply.cost_usd) == ("stop", False, None)
    assert (asked.reply.usage.prompt_tokens, asked.reply.usage.total) == (9, 13)
    assert asked.events == []


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
def test_passing_faults_are_retried(status: int) -> None:
    asked = Asked([Reply(status=status, error="busy"), Reply(status=status), "fine"])
    assert (asked.text, len(asked.requests)) == ("fine", 3)
    assert [(e.attempt, e.role, e.scope) for e in asked.events] == [(1, "solver", "s"), (2, "solver", "s")]
    assert "busy" in asked.events[0].message and str(status) in asked.events[0].message
    assert [event.wait_sec for event in asked.events] == asked.clock.slept
    assert asked.spent.possible_calls == 0


@pytest.mark.parametrize(
    ("status", "cause"), [(400, "bad_request"), (401, "auth"), (403, "auth"), (404, "bad_request")]
)
def test_lasting_faults_are_asked_once(status: int, cause: str) -> None:
    asked = Asked([Reply(status=status, error="no"), "never asked for"])
    assert (asked.cause, len(asked.requests), asked.events) == (cause, 1, [])
    assert "no" in str(asked.error)


@pytest.mark.parametrize("status", [429, 503])
def test_a_fault_that_stays_is_given_up(status: int) -> None:
    asked = Asked([Reply(status=status)] * 3, {"retries": 2})
    assert (asked.cause, len(asked.requests)) == ({429: "rate_limit", 503: "server_error"}[status], 3)
    assert asked.spent.all_calls == 0


def test_retry_after_in_seconds_and_as_a_date() -> None:
    soon = formatdate(time.time() + 20, usegmt=True)
    waits = [Reply(status=429, headers={"Retry-After": "7"}), Reply(status=503, headers={"Retry-After": soon})]
    asked = Asked([*waits, "x"])
    assert asked.text == "x"
    assert asked.clock.slept[0] == 7
    assert 15 <= asked.clock.slept[1] <= 21


def test_a_wrong_key_is_not_shown() -> None:
    asked = _with_key("another")
    assert asked.cause == "auth"
    assert KEY not in str(asked.error) and "[REDACTED:secret]" in str(asked.error)
    assert asked.requests == []


def _with_key(expected: str) -> Asked:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", KEY)
        return Asked(["x"], {"api_key_env": "CANARY"}, key=expected)


def test_the_right_key_arrives() -> None:
    asked = _with_key(KEY)
    assert asked.text == "x" and asked.requests[0].key == KEY


def test_a_hanging_service_times_out() -> None:
    asked = Asked([Reply(hang=True), "late"], {"timeout_sec": 0.5})
    assert (asked.text, asked.events[0].cause) == ("late", "timeout")
    assert (asked.spent.calls, asked.spent.possible_calls) == (1, 1)


def test_a_trickling_service_times_out_although_it_is_never_silent() -> None:
    asked = Asked([Reply("x" * 200, drip=0.1), "fast"], {"timeout_sec": 0.8})
    assert asked.events[0].cause == "timeout"
    assert (asked.repeats, len(asked.requests)) == (1, 2)


def test_a_slow_reply_is_waited_for() -> None:
    assert Asked([Reply("slow", delay=0.3)]).text == "slow"


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_lost_connection_is_asked_again_and_not_paid_again(cut: int) -> None:
    asked = Asked([Reply("whole", cut=cut), "other"])
    assert (asked.text, asked.generated, asked.repeats) == ("whole", 1, 1)
    assert (asked.spent.calls, asked.spent.possible_calls) == (1, 1)
    assert "connection lost" in asked.events[0].message


def test_nobody_there_costs_nothing() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"

    async def run() -> Spending:
        async with gateway_for(url, model={"retries": 2}) as gateway:
            with pytest.raises(ModelServiceError, match="connection lost") as caught:
                await gateway.complete("solver", user(), scope="s", ordinal=0, purpose="turn")
            assert caught.value.cause == "server_error"
            return gateway.ledger.spent()

    assert asyncio.run(run()).all_calls == 0


@pytest.mark.parametrize("bad", [Reply(raw='{"choices": [{"mess'), Reply(raw="<html>502</html>"), Reply(choices=[])])
def test_unreadable_replies_are_retried_and_may_have_been_paid(bad: Reply) -> None:
    asked = Asked([bad, "good"])
    assert (asked.text, asked.events[0].cause) == ("good", "bad_reply")
    assert (asked.spent.calls, asked.spent.possible_calls) == (1, 1)


def test_unreadable_to_the_end() -> None:
    assert Asked([Reply(choices=[])] * 2, {"retries": 1}).cause == "bad_reply"


def test_overflow_is_typed_and_free() -> None:
    asked = Asked([overflow(), "never asked for"])
    assert isinstance(asked.error, ContextOverflowError)
    assert "maximum context length" in str(asked.error)
    assert (len(asked.requests), asked.spent.all_calls) == (1, 0)


def test_a_truncated_reply_keeps_its_text_and_is_paid() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 20}
    asked = Asked([Reply("half a re", finish_reason="length", usage=usage)])
    assert isinstance(asked.error, ReplyTruncatedError)
    assert (asked.error.text, asked.error.usage.total, asked.error.model) == ("half a re", 30, "m")
    assert (len(asked.requests), asked.spent.calls, asked.spent.all_tokens) == (1, 1, 30)


def test_a_filtered_reply_is_typed_and_paid() -> None:
    asked = Asked([Reply("", finish_reason="content_filter")])
    assert isinstance(asked.error, ContentFilteredError)
    assert (asked.cause, len(asked.requests), asked.spent.calls) == ("bad_reply", 1, 1)


def test_an_empty_text_is_a_reply() -> None:
    assert Asked([Reply("")]).text == ""


def test_missing_usage_is_not_zero() -> None:
    asked = Asked([Reply("x", usage={})])
    assert asked.reply is not None
    assert (asked.reply.usage.prompt_tokens, asked.reply.cost_usd) == (None, None)
    assert asked.spent.possible_tokens > 0


def test_surrogates_neither_break_a_request_nor_a_reply() -> None:
    with OpenAIServer(lambda request: Reply(request.last, raw=None)) as server:

        async def run() -> str:
            async with gateway_for(server.url) as gateway:
                asked = user("a\ud800b é \U0001f600")
                return (await gateway.complete("solver", asked, scope="\ud800", ordinal=0, purpose="\udfff")).text

        assert asyncio.run(run()) == "a\ufffdb é \U0001f600"


def test_a_reply_that_shows_the_key_does_not_pass_it_on() -> None:
    with pytest.MonkeyPatch.context() as patch, OpenAIServer(lambda r: Reply(f"key {r.key}")) as server:
        patch.setenv("CANARY", KEY)

        async def run() -> str:
            async with gateway_for(server.url, model={"api_key_env": "CANARY"}) as gateway:
                return (await gateway.complete("solver", user(), scope="s", ordinal=0, purpose="turn")).text

        assert asyncio.run(run()) == "key [REDACTED:secret]"
