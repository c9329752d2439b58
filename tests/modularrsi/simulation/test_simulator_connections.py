"""The simulator's connections: many at once, clients that leave, an orderly end, and what is no ordinary request."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import openai
import pytest
from openai import AsyncOpenAI

from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import Faults, Simulation

Result = TypeVar("Result")


def echo(question: Question) -> Answer:
    return Answer(question.last)


def serve(
    client: Callable[[SimulatorServer], Awaitable[Result]], answer: Callable[[Question], Answer] = echo,
    simulation: Simulation | None = None,
) -> Result:  # fmt: skip
    async def scenario() -> Result:
        async with asyncio.timeout(120), SimulatorServer(answer, simulation or Simulation()) as server:
            return await client(server)

    return asyncio.run(scenario())


def port(server: SimulatorServer) -> int:
    return int(server.url.split(":")[2].split("/")[0])


def request(text: str, head: bytes = b"", **more: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": "simulated", "messages": messages, **more}).encode()
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, *([head] if head else []), b"", body])


async def send(server: SimulatorServer, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port(server))
    writer.write(data)
    return reader, writer


async def until(holds: Callable[[], bool]) -> None:
    """Fails after half a minute."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what it waits for is the server's, and tells nobody
            await asyncio.sleep(0.005)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of a thousand connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    if wanted < 2500 and soft < 2500:
        pytest.skip(f"this machine gives a process {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.slow
def test_a_thousand_calls_of_one_client_at_once_each_get_their_own_reply() -> None:
    async def ask(server: SimulatorServer) -> list[str | None]:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=300) as client:
            asked = (
                client.chat.completions.create(
                    model="simulated", messages=[{"role": "user", "content": f"number {number}"}]
                )
                for number in range(1000)
            )
            return [reply.choices[0].message.content for reply in await asyncio.gather(*asked)]

    assert serve(ask) == [f"number {number}" for number in range(1000)]


@pytest.mark.usefixtures("many_files")
def test_a_thousand_sockets_open_at_once_each_get_their_own_reply() -> None:
    """All are connected before the first one asks."""

    async def ask(server: SimulatorServer) -> list[str]:
        ends = await asyncio.gather(*(send(server, b"") for _ in range(1000)))
        await until(lambda: server.connections == 1000)
        for number, (_, writer) in enumerate(ends):
            writer.write(request(f"number {number}", b"Connection: close"))
        replies = await asyncio.gather(*(reader.read(-1) for reader, _ in ends))
        for _, writer in ends:
            writer.close()
        return [json.loads(data.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] for data in replies]

    assert serve(ask) == [f"number {number}" for number in range(1000)]


def test_a_client_that_leaves_is_forgotten_while_the_policy_thinks() -> None:
    """And those that have not begun are not begun: there are four threads, and forty who left."""
    go_on, begun = threading.Event(), []

    def slow(question: Question) -> Answer:
        begun.append(question.last)
        go_on.wait(60)
        return Answer("late")

    async def leave(server: SimulatorServer) -> None:
        ends = await asyncio.gather(*(send(server, request(f"number {number}")) for number in range(40)))
        await until(lambda: server.connections == 40 and len(begun) == 4)
        for _, writer in ends:
            writer.transport.abort()
        await until(lambda: server.connections == 0)
        go_on.set()
        reader, writer = await send(server, request("one who stays", b"Connection: close"))
        assert b"late" in await reader.read(-1)
        writer.close()

    serve(leave, slow)
    assert len(begun) == 5
    assert begun[-1] == "one who stays"


@pytest.mark.parametrize("fault", ["hang", "slow_stream"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_a_fault_is_forgotten(fault: str, stream: bool) -> None:
    async def leave(server: SimulatorServer) -> None:
        _, writer = await send(server, request("x" * 10_000, stream=stream))
        await until(lambda: server.faults.met[fault] == 1)
        assert server.connections == 1
        writer.transport.abort()
        await until(lambda: server.connections == 0)

    serve(leave, simulation=Simulation(faults=Faults(script=(fault,), slow_sec=0.01)))


def test_a_close_finishes_what_is_being_said_and_drops_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modularrsi.simulation.server._GRACE_SEC", 3600.0)
    thinking, go_on = threading.Event(), threading.Event()

    def slow(question: Question) -> Answer:
        thinking.set()
        go_on.wait(60)
        return Answer("said to the end")

    async def scenario() -> tuple[bytes, bytes, bytes]:
        server = SimulatorServer(slow, Simulation(faults=Faults(script=("hang",))))
        await server.start()
        hanging, one = await send(server, request("hang"))
        await until(lambda: server.faults.met["hang"] == 1)
        idle, other = await send(server, b"")
        busy, third = await send(server, request("x", stream=True))
        await until(thinking.is_set)
        closing = asyncio.create_task(server.close())
        dropped = await hanging.read(-1), await idle.read(-1)
        assert not closing.done()
        go_on.set()
        async with asyncio.timeout(60):
            said = await busy.read(-1)
            await closing
        assert server.connections == 0
        for writer in (one, other, third):
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await send(server, b"")
        return *dropped, said

    hung, idle, said = asyncio.run(scenario())
    assert (hung, idle) == (b"", b"")
    assert b"[DONE]" in said


def test_what_is_sent_ahead_of_a_reply_is_answered_next() -> None:
    """Even while the policy thinks, and the server watches for the client's end."""
    thinking, go_on = threading.Event(), threading.Event()

    def slow(question: Question) -> Answer:
        thinking.set()
        go_on.wait(60)
        return Answer(question.last)

    async def ask(server: SimulatorServer) -> bytes:
        reader, writer = await send(server, request("first"))
        await until(thinking.is_set)
        for number in range(30):
            writer.write(request(f"<{number}>" + "x" * 8000))
        writer.write(request("<30>", b"Connection: close"))
        await asyncio.sleep(0.05)
        go_on.set()
        data = await reader.read(-1)
        writer.close()
        return data

    data = serve(ask, slow)
    places = [data.index(b"first"), *(data.index(b"<%d>" % number) for number in range(31))]
    assert places == sorted(places)
    assert data.count(b"HTTP/1.1 200") == 32


def test_a_body_that_is_too_large_is_refused_and_the_client_hears_it() -> None:
    async def ask(server: SimulatorServer) -> None:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=120) as client:
            await client.chat.completions.create(
                model="simulated", messages=[{"role": "user", "content": "x" * (66 * 1024 * 1024)}]
            )

    with pytest.raises(openai.APIStatusError, match="larger than 67108864 bytes") as refused:
        serve(ask)
    assert refused.value.status_code == 413


def test_a_body_of_unknown_length_that_grows_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modularrsi.simulation.http.MAX_BODY", 100_000)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def ask(server: SimulatorServer) -> bytes:
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        reader, writer = await send(server, head + 3 * piece)
        said = await reader.read(-1)
        writer.close()
        return said

    assert serve(ask).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000, 431),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"no http\r\n\r\n", 400),
    ],
)
def test_what_is_not_http_is_refused_in_the_usual_shape(sent: bytes, status: int) -> None:
    async def ask(server: SimulatorServer) -> bytes:
        reader, writer = await send(server, sent)
        said = await reader.read(-1)
        writer.close()
        return said

    head, _, body = serve(ask).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert b"X-ModularRSI-Simulated: 1" in head
    assert json.loads(body)["error"]["message"]


def test_a_head_is_answered_without_a_body(caplog: pytest.LogCaptureFixture) -> None:
    def ask(server: SimulatorServer) -> list[tuple[int, int, bytes]]:
        connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=30)
        found = []
        for path in ("/health", "/v1/models", "/none", "/health"):
            connection.request("HEAD", path)
            reply = connection.getresponse()
            found.append((reply.status, int(reply.getheader("Content-Length") or 0) > 0, reply.read()))
        connection.close()
        return found

    found = serve(lambda server: asyncio.to_thread(ask, server))
    assert found == [(200, True, b""), (200, True, b""), (404, True, b""), (200, True, b"")]
    assert not caplog.records
