"""The simulator over real HTTP: OpenAI's own client, raw sockets, and anything at all."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI

from modularrsi.simulation.names import MODELS
from modularrsi.simulation.question import Answer, CannotAnswer, Question
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import Simulation

Result = TypeVar("Result")
SIMULATION = Simulation(context_tokens=4000)


def echo(question: Question) -> Answer:
    """Says what it was asked, so that a swapped reply shows."""
    if "cannot" in question.last:
        raise CannotAnswer("there is no such task")
    if "break" in question.last:
        raise RuntimeError("a secret of the policy")
    return Answer(f"{question.role} {question.scope} {question.ordinal} {question.purpose}: {question.last}")


def serve(client: Callable[[SimulatorServer], Awaitable[Result]], simulation: Simulation = SIMULATION) -> Result:
    async def scenario() -> Result:
        async with SimulatorServer(echo, simulation) as server:
            return await client(server)

    return asyncio.run(scenario())


def in_thread(client: Callable[[str], Result], simulation: Simulation = SIMULATION) -> Result:
    """A client that blocks."""
    return serve(lambda server: asyncio.to_thread(client, server.url), simulation)


def messages(text: str = "hello") -> Any:
    return [{"role": "user", "content": text}]


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=url, api_key="none", max_retries=0)


def test_a_reply_of_each_role() -> None:
    def ask(url: str) -> list[Any]:
        client = client_of(url)
        return [client.chat.completions.create(model=name, messages=messages()) for name in MODELS]

    for reply, (name, role) in zip(in_thread(ask), MODELS.items(), strict=True):
        assert reply.choices[0].message.content == f"{role}  0 : hello"
        assert (reply.model, reply.choices[0].finish_reason) == (name, "stop")
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
        assert reply.system_fingerprint.startswith("simulated-")
        assert reply.model_extra["simulated"] is True


def test_a_stream_is_the_same_reply_in_pieces() -> None:
    def ask(url: str) -> list[Any]:
        text = "a long text, in several pieces " * 5
        stream = client_of(url).chat.completions.create(
            model="simulated", messages=messages(text), stream=True, stream_options={"include_usage": True}
        )
        return [text, *stream]

    text, *parts = in_thread(ask)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices).endswith(text)
    assert [part.choices[0].finish_reason for part in parts if part.choices][-1] == "stop"
    assert parts[-1].usage.completion_tokens > 10
    assert not parts[-1].choices
    assert len(parts) > 5


def test_the_place_of_a_call_comes_in_headers() -> None:
    def ask(url: str) -> Any:
        headers = {"X-ModularRSI-Scope": "a%20task/1/0", "X-ModularRSI-Ordinal": "7", "X-ModularRSI-Purpose": "turn",
                   "X-ModularRSI-Role": "solver"}
        return client_of(url).chat.completions.create(model="simulated", messages=messages(), extra_headers=headers)

    assert in_thread(ask).choices[0].message.content == "solver a task/1/0 7 turn: hello"


def test_an_asked_limit_cuts_the_reply() -> None:
    def ask(url: str) -> Any:
        long = messages("word " * 100)
        return client_of(url).chat.completions.create(model="simulated", messages=long, max_tokens=20)

    reply = in_thread(ask)
    assert reply.choices[0].finish_reason == "length"
    assert 10 <= reply.usage.completion_tokens <= 20


@pytest.mark.parametrize(
    ("stop", "text"),
    [("four", "one two three "), (["five", "two"], "one "), (["six"], "one two three four five")],
)
def test_an_asked_stop_ends_the_reply_before_it(stop: Any, text: str) -> None:
    def ask(url: str) -> tuple[Any, str]:
        asked: Any = {"model": "simulated", "messages": messages("one two three four five"), "stop": stop}
        whole = client_of(url).chat.completions.create(**asked).choices[0]
        stream = client_of(url).chat.completions.create(**asked, stream=True)
        return whole, "".join(part.choices[0].delta.content or "" for part in stream)

    whole, streamed = in_thread(ask)
    assert whole.message.content == streamed == f"solver  0 : {text}"
    assert whole.finish_reason == "stop"


def test_a_stop_beyond_the_asked_limit_does_not_count() -> None:
    def ask(url: str) -> Any:
        asked = messages("word " * 100 + "end")
        return client_of(url).chat.completions.create(model="simulated", messages=asked, max_tokens=20, stop="end")

    assert in_thread(ask).choices[0].finish_reason == "length"


def test_an_id_is_of_the_call_and_not_of_its_words_alone() -> None:
    def ask(url: str) -> list[str]:
        return [
            client_of(url).chat.completions.create(
                model="simulated", messages=messages(), extra_headers={"X-ModularRSI-Scope": scope}
            ).id
            for scope in ("a/1/0", "a/2/0", "a/1/0")
        ]  # fmt: skip

    first, other, again = in_thread(ask)
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": "gpt-5"}, openai.NotFoundError, "does not exist"),
        ({"messages": []}, openai.BadRequestError, "at least one message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, openai.BadRequestError, "role must be one of"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, openai.BadRequestError, "text parts"),
        ({"n": 2}, openai.BadRequestError, "n must be 1"),
        ({"max_tokens": 0}, openai.BadRequestError, "1 or more"),
        ({"stop": [""]}, openai.BadRequestError, "stop must be"),
        ({"stop": list("abcde")}, openai.BadRequestError, "stop must be"),
        ({"tools": [{"type": "function"}]}, openai.BadRequestError, "takes no tools"),
        ({"messages": messages("too long " * 9000)}, openai.BadRequestError, "maximum context length"),
        ({"messages": messages("cannot")}, openai.BadRequestError, "no such task"),
        ({"messages": messages("break")}, openai.InternalServerError, "simulator's own fault: RuntimeError"),
        ({"extra_headers": {"X-ModularRSI-Role": "editor"}}, openai.BadRequestError, "plays solver"),
    ],
)
def test_refusals(change: dict[str, Any], error: type[openai.APIStatusError], words: str) -> None:
    def ask(url: str) -> None:
        client_of(url).chat.completions.create(**{"model": "simulated", "messages": messages(), **change})

    with pytest.raises(error, match=words) as refused:
        in_thread(ask)
    assert "secret" not in str(refused.value)


def test_models_are_listed() -> None:
    def ask(url: str) -> Any:
        client = client_of(url)
        return [model.id for model in client.models.list()], client.models.retrieve("simulated-editor").id

    assert in_thread(ask) == (["simulated", *MODELS], "simulated-editor")


def raw_request(number: int) -> bytes:
    body = json.dumps({"model": "simulated", "messages": messages(f"number {number}")}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_a_thousand_requests_in_one_pipeline_come_back_in_order() -> None:
    async def ask(server: SimulatorServer) -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
        writer.write(b"".join(map(raw_request, range(1000))))
        found = []
        for _ in range(1000):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            reply = json.loads(await reader.readexactly(length))
            found.append(int(reply["choices"][0]["message"]["content"].rpartition(" ")[2]))
        writer.close()
        return found

    assert serve(ask) == list(range(1000))


def test_the_same_requests_in_another_order_give_the_same_bytes() -> None:
    async def fetch(url: str, number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        writer.write(raw_request(number).replace(b"Host: x", b"Host: x\r\nConnection: close"))
        data = await reader.read(-1)
        writer.close()
        return data

    async def all_of(server: SimulatorServer, order: list[int], width: int) -> dict[int, bytes]:
        gate = asyncio.Semaphore(width)

        async def one(number: int) -> bytes:
            async with gate:
                return await fetch(server.url, number)

        return dict(zip(order, await asyncio.gather(*map(one, order)), strict=True))

    order = list(range(60))
    shuffled = random.Random(1).sample(order, 60)
    assert serve(lambda s: all_of(s, order, 1)) == serve(lambda s: all_of(s, shuffled, 30))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["model", "messages", "stream", "max_tokens", "n", "stream_options", "tools", "stop"])


@pytest.fixture(scope="module")
def port() -> Any:
    """A server in a thread of its own."""
    loop = asyncio.new_event_loop()
    server = SimulatorServer(echo, SIMULATION)
    loop.run_until_complete(server.start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield int(server.url.split(":")[2].split("/")[0])
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


@settings(deadline=None, max_examples=60)
@given(body=st.dictionaries(fields, anything, max_size=6), valid=st.booleans())
def test_no_body_breaks_it(port: int, body: dict[str, Any], valid: bool) -> None:
    if valid:
        body = {**body, "model": "simulated", "messages": messages()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    assert reply.status in (200, 400, 404)
    assert reply.getheader("X-ModularRSI-Simulated") == "1"
    assert text


@settings(deadline=None, max_examples=40)
@given(data=st.binary(min_size=1, max_size=200))
def test_no_bytes_break_it(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: raw.recv(4096), b""))
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


def test_unknown_addresses_and_methods(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for path, status in (("/v2", 404), ("/v1/chat/completions", 405), ("/v1/models/x", 404)):
        connection.request("GET", path)
        reply = connection.getresponse()
        assert (reply.status, json.loads(reply.read())["simulated"]) == (status, True)
    connection.close()


def test_a_client_that_asks_first_is_told_to_go_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        head, _, body = raw_request(3).partition(b"\r\n\r\n")
        raw.sendall(head + b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 100")
        raw.sendall(body)
        assert b"number 3" in b"".join(iter(lambda: raw.recv(65536), b""))
