"""The simulator as an HTTP service: `/v1/chat/completions`, `/v1/models`, `/health`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.simulation import chat
from modularrsi.simulation.chat import ChatRequest, Refusal
from modularrsi.simulation.faults import FaultInjector
from modularrsi.simulation.http import BadRequest, Connection, HttpRequest
from modularrsi.simulation.question import Answer, CannotAnswer, Question
from modularrsi.simulation.settings import Simulation

_LOG = logging.getLogger(__name__)
_BACKLOG = 4096
_THREADS = 4
_JSON = {"Content-Type": "application/json", "X-ModularRSI-Simulated": "1"}
_EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-ModularRSI-Simulated": "1"}
_DONE = b"data: [DONE]\n\n"
_GRACE_SEC = 5.0
"""How long `close` waits for replies that are under way."""
_DRIP = 16
"""Bytes of a piece of a slow reply."""
_WRONG_USAGE = {"prompt_tokens": -5, "completion_tokens": 10**12, "total_tokens": "many"}


class SimulatorServer:
    """Serves `answer`, a pure function that is called in threads. Belongs to one event loop; close it after use.

    `url` ends in `/v1` and is known after `start`. `faults.met` counts what requests have met; `connections` are open
    now.
    """

    def __init__(
        self, answer: Callable[[Question], Answer], simulation: Simulation, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._answer, self._simulation = answer, simulation
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._replying: set[asyncio.Task[None]] = set()
        self._closing = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="simulator")
        self._version = _version()
        self.faults = FaultInjector(simulation)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def connections(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        """Raises UserError when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise UserError(f"the simulator cannot listen at {self._host}:{self._port}: {_why(error)}; choose another "
                            "--port (0 takes a free one) or --host") from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, drop the connections that wait or hang, and the others when they have had their reply."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for task in self._open - self._replying:
            task.cancel()
        if self._replying:
            await asyncio.wait(self._replying, timeout=_GRACE_SEC)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> SimulatorServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------------------- connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(Connection(reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, _Broken):
            pass  # the client has gone, the server closes, or the fault was to break off
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                request = await connection.request()
            except BadRequest as error:
                if connection.replying:
                    await _send(connection, error.status, Refusal(error.status, str(error)).body())
                    await connection.linger()
                return
            if request is None:
                return
            await self._respond(connection, request)
            if self._closing or not connection.next():
                return

    async def _respond(self, connection: Connection, request: HttpRequest) -> None:
        try:
            path = request.path.partition("?")[0].rstrip("/")
            if (request.method, path) == ("POST", "/v1/chat/completions"):
                await self._complete(connection, request)
            else:
                await _send(connection, 200, _page(request.method, path))
        except Refusal as refusal:
            await _send(connection, refusal.status, refusal.body())

    @contextlib.contextmanager
    def _reply_under_way(self) -> Iterator[None]:
        """`close` waits for it."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._replying.add(task)
        try:
            yield
        finally:
            self._replying.discard(task)

    # -------------------------------------------------------------------------------------------------- completions

    async def _complete(self, connection: Connection, request: HttpRequest) -> None:
        asked = chat.read(request.body, request.headers, self._simulation.context_tokens)
        fault = self.faults.next(asked)
        before = _BEFORE.get(fault)
        if before is not None:
            return await before(connection, self._simulation)
        with self._reply_under_way():
            answer = chat.ended(await self._asked(connection, asked.question), asked)
            if asked.stream:
                await self._stream(connection, asked, answer, fault)
            else:
                await self._whole(connection, asked, answer, fault)
        return None

    async def _asked(self, connection: Connection, question: Question) -> Answer:
        answer = asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)
        if not await connection.waits_for(answer):
            raise _Broken
        try:
            return answer.result()
        except CannotAnswer as error:
            raise Refusal(400, str(error), "cannot_answer") from error
        except UserError as error:
            raise Refusal(400, str(error), "bad_task") from error
        except Exception as error:
            _LOG.exception("the policy of %s failed at %s", question.role, question.scope)
            raise Refusal(500, f"the simulator's own fault: {type(error).__name__} (see its log)") from error

    async def _whole(self, connection: Connection, asked: ChatRequest, answer: Answer, fault: str) -> None:
        body = _damaged(chat.completion(asked, answer, self._version), fault)
        data = _json(body)
        if fault == "bad_json":
            data = data[: len(data) // 2]
        if fault == "cut_stream":
            await connection.start(200, {**_JSON, "Content-Length": str(len(data))})
            await connection.piece(data[: len(data) // 2])
            raise _Broken
        if fault == "slow_stream":
            await connection.start(200, {**_JSON, "Content-Length": str(len(data))})
            await self._drip(connection, data)
            return
        await connection.reply(200, _JSON, data)

    async def _stream(self, connection: Connection, asked: ChatRequest, answer: Answer, fault: str) -> None:
        parts = [_event(_damaged(part, fault)) for part in chat.chunks(asked, answer, self._version)]
        if fault == "bad_json":
            parts[len(parts) // 2] = parts[len(parts) // 2].rstrip()[:-9] + b"\n\n"
        await connection.start(200, _EVENTS)
        for number, part in enumerate(parts):
            if fault == "cut_stream" and number > len(parts) // 2:
                raise _Broken
            await connection.piece(part)
            if fault == "slow_stream":
                await asyncio.sleep(self._simulation.faults.slow_sec)
        await connection.piece(_DONE)
        await connection.end()

    async def _drip(self, connection: Connection, data: bytes) -> None:
        for start in range(0, len(data), _DRIP):
            await connection.piece(data[start : start + _DRIP])
            await asyncio.sleep(self._simulation.faults.slow_sec)
        await connection.end()


class _Broken(Exception):
    """The connection is to end here."""


async def _rate_limit(connection: Connection, simulation: Simulation) -> None:
    after = simulation.faults.retry_after
    await _refuse(connection, 429, "Rate limit reached for requests", "rate_limit_exceeded",
                  {"Retry-After": str(math.ceil(after)), "Retry-After-Ms": str(round(after * 1000))})


async def _rate_limit_bare(connection: Connection, simulation: Simulation) -> None:
    await _refuse(connection, 429, "Rate limit reached for requests", "rate_limit_exceeded")


async def _server_error(connection: Connection, simulation: Simulation) -> None:
    await _refuse(connection, 500, "The server had an error while processing your request", None)


async def _hang(connection: Connection, simulation: Simulation) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(simulation.faults.hang_sec):
            await connection.gone()
    raise _Broken


_BEFORE = {
    "rate_limit": _rate_limit, "rate_limit_bare": _rate_limit_bare, "server_error": _server_error, "hang": _hang,
}  # fmt: skip
"""Faults that come before anything is generated."""


def _damaged(body: dict[str, Any], fault: str) -> dict[str, Any]:
    if fault == "empty_choice":
        return body | {"choices": []}
    if fault == "wrong_usage" and body.get("usage"):
        return body | {"usage": _WRONG_USAGE}
    return body


async def _refuse(
    connection: Connection, status: int, message: str, code: str | None, headers: Mapping[str, str] | None = None
) -> None:
    await _send(connection, status, Refusal(status, message, code).body(), headers)


async def _send(
    connection: Connection, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    await connection.reply(status, {**_JSON, **(headers or {})}, _json(body))


def _page(method: str, path: str) -> dict[str, Any]:
    reads = method in ("GET", "HEAD")
    if reads and path == "/health":
        return {"status": "ok", "simulated": True}
    if reads and path == "/v1/models":
        return chat.models()
    if reads and path.startswith("/v1/models/"):
        return chat.model(path.removeprefix("/v1/models/"))
    if path == "/v1/chat/completions":
        raise Refusal(405, f"{path} takes POST, not {method}")
    raise Refusal(404, f"unknown address: {method} {path[:200]}; try POST /v1/chat/completions or GET /v1/models")


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _event(part: dict[str, Any]) -> bytes:
    return b"data: " + _json(part) + b"\n\n"


def _why(error: OSError | OverflowError) -> str:
    """The system's own words, without asyncio's around them."""
    plain = isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno
    return os.strerror(plain).lower() if plain else str(error)


def _version() -> str:
    try:
        return package_version("modularrsi")
    except PackageNotFoundError:
        return "unknown"
