from __future__ import annotations

import asyncio
from email.utils import formatdate

import pytest
from support.gateways import FakeClock

from modularrsi.gateway.classify import fault_of_status, read_reply, retry_after
from modularrsi.gateway.retry import RetryPolicy, with_retries
from modularrsi.gateway.service import ServiceFault


def _fault(retry: bool = True, after: float | None = None) -> ServiceFault:
    return ServiceFault("x", "server_error", retry=retry, retry_after=after)


def _run(
    outcomes: list[ServiceFault | str], policy: RetryPolicy, clock: FakeClock
) -> tuple[str, list[int], list[float]]:
    asked: list[int] = []
    waits: list[float] = []

    async def attempt(number: int) -> str:
        asked.append(number)
        outcome = outcomes[number - 1]
        if isinstance(outcome, ServiceFault):
            raise outcome
        return outcome

    try:
        result = asyncio.run(with_retries(attempt, policy, clock, lambda n, wait, fault: waits.append(wait)))
    except ServiceFault as fault:
        result = fault.cause
    return result, asked, waits


def test_waits_double_and_are_announced() -> None:
    clock = FakeClock()
    result, asked, waits = _run([_fault(), _fault(), _fault(), "ok"], RetryPolicy(), clock)
    assert (result, asked) == ("ok", [1, 2, 3, 4])
    assert clock.slept == waits
    for wait, full in zip(waits, (1, 2, 4), strict=True):
        assert 0.75 * full <= wait <= full


def test_attempts_are_bounded() -> None:
    result, asked, waits = _run([_fault()] * 9, RetryPolicy(attempts=3), FakeClock())
    assert (result, asked, len(waits)) == ("server_error", [1, 2, 3], 2)


def test_total_time_is_bounded() -> None:
    clock = FakeClock()
    _, asked, _ = _run([_fault(after=40)] * 9, RetryPolicy(attempts=9, total_sec=100), clock)
    assert asked == [1, 2, 3] and clock.now() == 1080


def test_what_cannot_get_better_is_asked_once() -> None:
    assert _run([_fault(retry=False)] * 2, RetryPolicy(), FakeClock())[1] == [1]


def test_retry_after_is_honoured_and_bounded() -> None:
    clock = FakeClock()
    _run([_fault(after=7), _fault(after=86_400), _fault(after=0), "ok"], RetryPolicy(longest_sec=60), clock)
    assert clock.slept == [7, 60, 0]


def test_other_errors_pass_at_once() -> None:
    asked = 0

    async def attempt(number: int) -> str:
        nonlocal asked
        asked = number
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(with_retries(attempt, RetryPolicy(), FakeClock(), lambda *_: None))
    assert asked == 1


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"Retry-After-Ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": formatdate(NOW + 30, usegmt=True)}, 30),
        ({"Retry-After": formatdate(NOW - 30, usegmt=True)}, 0),
        ({"Retry-After": formatdate(NOW + 5030, usegmt=True), "Date": formatdate(NOW + 5000, usegmt=True)}, 30),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Fri, 99 Zzz 2026 00:00:00 GMT"}, None),
    ],
)
def test_retry_after_dialects(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "cause", "retry"),
    [
        (400, "bad_request", False), (401, "auth", False), (402, "rate_limit", False), (403, "auth", False),
        (404, "bad_request", False), (408, "timeout", True), (409, "server_error", True), (422, "bad_request", False),
        (429, "rate_limit", True), (500, "server_error", True), (502, "server_error", True),
        (503, "server_error", True), (529, "server_error", True),
    ],
)  # fmt: skip
def test_statuses(status: int, cause: str, retry: bool) -> None:
    fault = fault_of_status(status, "message")
    assert (fault.cause, fault.retry, fault.maybe_paid) == (cause, retry, False)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "context length exceeded",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.",
        "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Your input exceeds the context window of this model.",
    ],
)
def test_overflow_in_many_words(message: str) -> None:
    assert fault_of_status(400, message).cause == "context_overflow"
    assert fault_of_status(400, "x", "context_length_exceeded").cause == "context_overflow"


def test_a_rate_limit_that_speaks_of_tokens_is_no_overflow() -> None:
    fault = fault_of_status(429, "Rate limit reached: tokens per min. Reduce the length of the messages.")
    assert fault.cause == "rate_limit" and fault.retry


def test_a_used_up_quota_does_not_come_back() -> None:
    assert not fault_of_status(429, "You exceeded your current quota", "insufficient_quota").retry


@pytest.mark.parametrize("body", ["", "{", "null", "[]", "3", '{"choices": []}', '{"choices": [3]}', "[" * 100_000])
def test_unreadable_bodies_may_have_been_paid(body: str) -> None:
    with pytest.raises(ServiceFault) as caught:
        read_reply(body)
    assert (caught.value.cause, caught.value.retry, caught.value.maybe_paid) == ("bad_reply", True, True)


def test_an_error_in_a_good_status_is_an_error() -> None:
    with pytest.raises(ServiceFault) as caught:
        read_reply('{"error": {"code": 429, "message": "slow down"}}')
    assert caught.value.cause == "rate_limit"
    with pytest.raises(ServiceFault) as caught:
        read_reply('{"error": {"code": null, "message": "prompt is too long"}}')
    assert caught.value.cause == "context_overflow"


def test_odd_but_usable_replies() -> None:
    assert read_reply('{"choices": [{"message": {"content": null}}]}').text == ""
    parts = '[{"type": "text", "text": "a"}, {"text": "b"}]'
    assert read_reply(f'{{"choices": [{{"message": {{"content": {parts}}}}}]}}').text == "ab"
    assert read_reply('{"choices": [{"message": {"content": "\\ud800x"}}]}').text == "\ufffdx"
    assert read_reply('{"choices": [{"message": {"refusal": "no"}}]}').text == "no"
    assert read_reply('{"choices": [{"message": {"content": "a", "reasoning": "r"}}]}').reasoning == "r"
    assert read_reply('{"choices": [{"message": {"content": "a"}, "finish_reason": "max_tokens"}]}').finish == "length"
    assert read_reply('{"choices": [{}], "usage": {"prompt_tokens": NaN}}').usage.prompt_tokens is None
