"""Every fault, as OpenAI's own client and the product's gateway meet it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from support.gateways import gateway_for, user

from modularrsi.errors import ModelServiceError
from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import FAULTS, Faults, Simulation

SAYS = "a reply of some length, so that it can be cut in the middle, dripped in pieces and streamed in chunks"
BEFORE_A_REPLY = ("rate_limit", "rate_limit_bare", "server_error", "hang")


def scripted(*faults: str, **seconds: float) -> Simulation:
    return Simulation(faults=Faults(script=faults, **{"slow_sec": 0.002, **seconds}))


def with_server(simulation: Simulation, use: Callable[[SimulatorServer], Any]) -> Any:
    async def scenario() -> Any:
        async with SimulatorServer(lambda question: Answer(SAYS), simulation) as server:
            return await use(server)

    return asyncio.run(scenario())


def request(client: AsyncOpenAI | OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="simulated", messages=[{"role": "user", "content": "hi"}], **more)


def plain(fault: str, timeout: float = 20.0) -> Any:
    """What OpenAI's client returns or raises."""

    async def use(server: SimulatorServer) -> Any:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=timeout) as client:
            return await request(client)

    return with_server(scripted(fault), use)


def streamed(fault: str, timeout: float = 20.0) -> tuple[str, list[Any], Exception | None]:
    """(the text so far, finish reasons, what was raised)."""

    async def use(server: SimulatorServer) -> Any:
        text, finish = "", []
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=timeout) as client:
            try:
                async for part in await request(client, stream=True, stream_options={"include_usage": True}):
                    for choice in part.choices:
                        text += choice.delta.content or ""
                        finish += [choice.finish_reason] if choice.finish_reason else []
            except Exception as error:  # noqa: BLE001 - whatever it is, is looked at
                return text, finish, error
        return text, finish, None

    return with_server(scripted(fault), use)


def test_the_table_of_faults_is_all_tested() -> None:
    tested = {*BEFORE_A_REPLY, "slow_stream", "cut_stream", "bad_json", "wrong_usage", "empty_choice"}
    assert tested == set(FAULTS)


@pytest.mark.parametrize(("fault", "after"), [("rate_limit", "1"), ("rate_limit_bare", None)])
def test_rate_limits(fault: str, after: str | None) -> None:
    with pytest.raises(openai.RateLimitError) as refused:
        plain(fault)
    assert refused.value.response.headers.get("retry-after") == after
    assert refused.value.code == "rate_limit_exceeded"
    assert refused.value.response.headers["x-modularrsi-simulated"] == "1"


def test_a_server_error() -> None:
    with pytest.raises(openai.InternalServerError):
        plain("server_error")


def test_a_hang_is_the_clients_to_end() -> None:
    with pytest.raises(openai.APITimeoutError):
        plain("hang", timeout=0.3)


def test_a_hang_ends_by_itself_too() -> None:
    async def use(server: SimulatorServer) -> Any:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            return await request(client)

    with pytest.raises(openai.APIConnectionError):
        with_server(scripted("hang", hang_sec=0.05), use)


def test_a_slow_reply_is_whole() -> None:
    assert plain("slow_stream").choices[0].message.content == SAYS


def test_a_cut_reply_is_a_lost_connection() -> None:
    with pytest.raises(openai.APIConnectionError):
        plain("cut_stream")


def test_cut_json_cannot_be_read() -> None:
    with pytest.raises(json.JSONDecodeError):
        plain("bad_json")


def test_wrong_usage_is_passed_on() -> None:
    reply = plain("wrong_usage")
    assert reply.choices[0].message.content == SAYS
    assert reply.usage.prompt_tokens == -5


def test_a_reply_without_a_choice() -> None:
    assert plain("empty_choice").choices == []


@pytest.mark.parametrize("fault", BEFORE_A_REPLY)
def test_a_stream_is_refused_like_a_reply(fault: str) -> None:
    text, _, error = streamed(fault, timeout=0.5)
    assert (text, isinstance(error, openai.APIError)) == ("", True)


def test_faults_of_a_stream() -> None:
    assert streamed("slow_stream") == (SAYS, ["stop"], None)
    assert streamed("wrong_usage") == (SAYS, ["stop"], None)
    assert streamed("empty_choice") == ("", [], None)


def test_a_stream_that_is_cut() -> None:
    text, finish, error = streamed("cut_stream")
    assert SAYS.startswith(text)
    assert text not in ("", SAYS)
    assert finish == []
    assert isinstance(error, openai.APIConnectionError)


def test_a_stream_with_a_broken_part() -> None:
    text, finish, error = streamed("bad_json")
    assert SAYS.startswith(text)
    assert finish == []
    assert isinstance(error, json.JSONDecodeError)


def blocking(fault: str, stream: bool) -> tuple[str, type[Exception] | None]:
    """What OpenAI's blocking client has heard in the end: (text, error)."""

    def ask(url: str) -> tuple[str, type[Exception] | None]:
        text = ""
        with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=0.5 if fault == "hang" else 20.0) as client:
            try:
                if not stream:
                    choices = request(client).choices
                    return "".join(choice.message.content for choice in choices), None
                for part in request(client, stream=True):
                    text += "".join(choice.delta.content or "" for choice in part.choices)
            except Exception as error:  # noqa: BLE001 - whatever it is, is looked at
                return text, type(error)
        return text, None

    return with_server(scripted(fault), lambda server: asyncio.to_thread(ask, server.url))


@pytest.mark.parametrize(
    ("fault", "whole", "in_stream"),
    [
        ("rate_limit", openai.RateLimitError, openai.RateLimitError),
        ("rate_limit_bare", openai.RateLimitError, openai.RateLimitError),
        ("server_error", openai.InternalServerError, openai.InternalServerError),
        ("hang", openai.APITimeoutError, openai.APITimeoutError),
        ("slow_stream", None, None),
        ("cut_stream", openai.APIConnectionError, openai.APIConnectionError),
        ("bad_json", json.JSONDecodeError, json.JSONDecodeError),
        ("wrong_usage", None, None),
        ("empty_choice", None, None),
    ],
)
def test_the_blocking_client_meets_the_same(fault: str, whole: Any, in_stream: Any) -> None:
    text, error = blocking(fault, stream=False)
    assert (text, error) == ("" if whole or fault == "empty_choice" else SAYS, whole)
    text, error = blocking(fault, stream=True)
    assert error is in_stream
    assert SAYS.startswith(text)
    assert (text == SAYS) == (fault in ("slow_stream", "wrong_usage"))
    assert (text == "") == (fault in (*BEFORE_A_REPLY, "empty_choice"))


# ----------------------------------------------------------------------------------------------------------- gateway


def through_gateway(*faults: str, **model: Any) -> tuple[Any, list[str], float]:
    """(reply or error, causes of the retries, seconds waited by the gateway's clock)."""
    causes: list[str] = []

    async def use(server: SimulatorServer) -> Any:
        settings = {"model": "simulated-solver", "retries": 2, **model}
        gateway = gateway_for(server.url, model=settings, on_event=lambda event: causes.append(event.cause))
        async with gateway:
            clock = gateway._desk.clock
            began = clock.now()
            try:
                reply = await gateway.complete("solver", user(), scope="t/1/0", ordinal=0, purpose="turn")
            except ModelServiceError as error:
                reply = error
            return reply, clock.now() - began

    reply, waited = with_server(scripted(*faults, retry_after=7.0), use)
    return reply, causes, waited


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("rate_limit", "rate_limit"), ("rate_limit_bare", "rate_limit"), ("server_error", "server_error"),
        ("hang", "timeout"), ("cut_stream", "server_error"), ("bad_json", "bad_reply"), ("empty_choice", "bad_reply"),
    ],
)  # fmt: skip
def test_the_gateway_tries_again_and_is_answered(fault: str, cause: str) -> None:
    # The second attempt has to be answered in time too, on a machine that does other things.
    reply, causes, waited = through_gateway(fault, timeout_sec=3.0 if fault == "hang" else 60.0)
    assert (reply.text, causes) == (SAYS, [cause])
    assert waited > 0
    if fault == "rate_limit":
        assert waited >= 7.0


@pytest.mark.parametrize("fault", ["slow_stream", "wrong_usage"])
def test_the_gateway_takes_what_can_be_taken(fault: str) -> None:
    reply, causes, _ = through_gateway(fault)
    assert (reply.text, causes) == (SAYS, [])
    if fault == "wrong_usage":
        assert reply.usage.prompt_tokens is None
        assert reply.cost_usd is None


def test_the_gateway_gives_up_in_the_end() -> None:
    error, causes, _ = through_gateway(*["server_error"] * 3)
    assert isinstance(error, ModelServiceError)
    assert causes == ["server_error", "server_error"]


# ------------------------------------------------------------------------------------------------------ rates, scripts


def outcomes(order: list[int], seed: int) -> dict[int, tuple[str, str]]:
    """What each of sixty calls meets, and its retry, all at once."""
    rates = {"server_error": 0.3, "rate_limit_bare": 0.2}

    async def use(server: SimulatorServer) -> dict[int, tuple[str, str]]:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:

            async def once(number: int) -> str:
                try:
                    headers = {"X-ModularRSI-Scope": f"t/{number}/0"}
                    return str((await request(client, extra_headers=headers)).choices[0].finish_reason)
                except openai.APIStatusError as error:
                    return str(error.status_code)

            async def twice(number: int) -> tuple[str, str]:
                return await once(number), await once(number)

            return dict(zip(order, await asyncio.gather(*map(twice, order)), strict=True))

    return with_server(Simulation(seed=seed, faults=Faults(rates)), use)


def test_rates_are_drawn_for_the_request_and_not_for_the_order() -> None:
    met = outcomes(list(range(60)), seed=1)
    assert met == outcomes(list(reversed(range(60))), seed=1)
    assert met != outcomes(list(range(60)), seed=2)
    first = [status for status, _ in met.values()]
    assert {"stop", "500", "429"} == set(first)
    assert 15 <= first.count("stop") <= 45
    assert any(before != after for before, after in met.values())


def test_a_script_is_played_in_order_and_counted() -> None:
    async def use(server: SimulatorServer) -> Any:
        said = []
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            for _ in range(4):
                try:
                    said.append((await request(client)).choices[0].finish_reason)
                except openai.APIStatusError as error:
                    said.append(error.status_code)
        return said, dict(server.faults.met)

    assert with_server(scripted("ok", "server_error", "rate_limit"), use) == (
        ["stop", 500, 429, "stop"], {"ok": 2, "server_error": 1, "rate_limit": 1},
    )  # fmt: skip


def test_a_question_is_one_of_the_policy_even_so() -> None:
    asked: list[Question] = []

    async def use(server: SimulatorServer) -> Any:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            await request(client, temperature=0.5)

    async def scenario() -> None:
        def answer(question: Question) -> Answer:
            asked.append(question)
            return Answer(SAYS)

        async with SimulatorServer(answer, scripted("slow_stream")) as server:
            await use(server)

    asyncio.run(scenario())
    assert asked[0].parameters["temperature"] == 0.5
