"""A scripted server that speaks OpenAI's chat completions over real HTTP, with every fault a service can have.

In a test:

    with OpenAIServer([Reply("hello"), Reply(status=429, headers={"Retry-After": "1"}), "plain text"]) as server:
        … server.url … server.requests … server.repeats …

or with a policy, `OpenAIServer(lambda request: Reply(request.last.upper()))`. On its own, so that it outlives the
process under test (`--port 0` picks a port; the first line of output is the URL; `GET /__stats` tells the counters):

    python tests/support/openai_server.py --script FILE --port 0 [--log FILE]

A request that repeats an `Idempotency-Key` gets the first good reply again, and is counted in `repeats`, not in
`generated`: `generated` is what a service would have charged for.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Reply:
    """What to answer.

    status, headers, error   of 400 and above: an error body with this message (or these fields)
    usage                    None: counted roughly; {}: the field is left out
    choices, raw             replace the list of choices, or the whole body, as they are
    delay, drip              seconds before the first byte; seconds between pieces of 16 bytes
    hang                     never answer, and generate nothing
    cut                      drop the connection after this many bytes of the body (the reply was generated)
    """

    text: str = "ok"
    finish_reason: str = "stop"
    usage: dict[str, Any] | None = None
    reasoning: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: str | dict[str, Any] = ""
    choices: list[Any] | None = None
    raw: str | None = None
    model: str | None = None
    delay: float = 0.0
    drip: float = 0.0
    hang: bool = False
    cut: int | None = None

    @property
    def good(self) -> bool:
        """Whether something was generated that a repeated request should get again."""
        return self.status == 200 and self.raw is None and self.choices is None and not self.hang


@dataclass(frozen=True)
class Request:
    """One request as it came. `number` counts from 0; header names are lower-case; `at` is `time.monotonic`."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    repeat: bool = False

    @property
    def last(self) -> str:
        """The text of the last message."""
        return self.body["messages"][-1]["content"]

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


Policy = Callable[[Request], "Reply | str"]


def overflow(message: str = "This model's maximum context length is 10 tokens.") -> Reply:
    """The refusal of a prompt that is too long, as OpenAI words it."""
    return Reply(status=400, error={"message": message, "code": "context_length_exceeded", "type": "invalid"})


class Script:
    """A policy that plays a list once, then does what `then` says: "fail", "repeat" the last, or "cycle".

    `rules` (text contained in the last message, reply) go first and use nothing up.
    """

    def __init__(
        self, replies: Sequence[Reply | str] = (), then: str = "fail", rules: Sequence[tuple[str, Reply]] = ()
    ) -> None:
        self._replies, self._then, self._rules = list(replies), then, list(rules)
        self._next = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply | str:
        for text, reply in self._rules:
            if text in request.last:
                return reply
        with self._lock:
            position, self._next = self._next, self._next + 1
        if position < len(self._replies):
            return self._replies[position]
        if not self._replies or self._then == "fail":
            return Reply(status=400, error="the script has no further reply")
        return self._replies[-1 if self._then == "repeat" else position % len(self._replies)]

    @classmethod
    def read(cls, path: Path) -> Script:
        """`["text", {"text": …, other fields of Reply}, …]`, or an object with `replies`, `then` and `rules`
        (`[{"contains": …, "reply": {…}}]`)."""
        raw = json.loads(path.read_text())
        table: dict[str, Any] = raw if isinstance(raw, dict) else {"replies": raw}
        rules = [(rule["contains"], _reply(rule["reply"])) for rule in table.get("rules", [])]
        return cls([_reply(item) for item in table.get("replies", [])], table.get("then", "fail"), rules)


def _reply(raw: str | dict[str, Any] | Reply) -> Reply:
    if isinstance(raw, Reply):
        return raw
    return Reply(raw) if isinstance(raw, str) else Reply(**raw)


class OpenAIServer:
    """The server. Everything it counts may be read while it runs.

    requests    all chat requests, in the order in which they were read
    generated   good replies that were made; repeats: requests whose key had one already
    peak        most requests at one time
    """

    def __init__(
        self, policy: Policy | Sequence[Reply | str] = (), *, key: str | None = None, models: Sequence[str] = ("m",),
        port: int = 0, log: Path | None = None,
    ) -> None:  # fmt: skip
        self._policy: Policy = policy if callable(policy) else Script(policy)
        self.key, self.models = key, list(models)
        self.requests: list[Request] = []
        self.generated = self.repeats = self.active = self.peak = 0
        self.stopping = threading.Event()
        self._kept: dict[str, Reply] = {}
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._log = log
        self._http = _HTTP(("127.0.0.1", port), _Handler, self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()

    def serve(self) -> None:
        """Serve in this thread until the process ends."""
        self._http.serve_forever()

    def wait_for(self, requests: int, seconds: float = 30.0) -> None:
        """Block until so many requests have come. Raises TimeoutError."""
        with self._came:
            if not self._came.wait_for(lambda: len(self.requests) >= requests, seconds):
                raise TimeoutError(f"{len(self.requests)} of {requests} requests came")

    def stats(self) -> dict[str, int]:
        with self._lock:
            return {"requests": len(self.requests), "generated": self.generated, "repeats": self.repeats,
                    "active": self.active, "peak": self.peak}  # fmt: skip

    def chat(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        """Record one chat request and decide on its reply."""
        name = headers.get("idempotency-key", "")
        with self._lock:
            kept = self._kept.get(name) if name else None
            request = Request(len(self.requests), path, headers, body, time.monotonic(), kept is not None)
            self.requests.append(request)
            self._came.notify_all()
            self.repeats += kept is not None
            self._write(request)
        if kept is not None:
            return kept
        reply = _reply(self._policy(request))
        with self._lock:
            self.generated += reply.good
            if name and reply.good:
                self._kept[name] = replace(reply, cut=None, delay=0.0, drip=0.0)
        return reply

    def enter(self, change: int) -> None:
        with self._lock:
            self.active += change
            self.peak = max(self.peak, self.active)

    def _write(self, request: Request) -> None:
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps(vars(request)) + "\n")


class _HTTP(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], owner: OpenAIServer) -> None:
        super().__init__(address, handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # head and body are two writes: together with delayed acks, 40 ms a reply
    protocol_version = "HTTP/1.1"

    @property
    def owner(self) -> OpenAIServer:
        return cast(_HTTP, self.server).owner

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        owner = self.owner
        if self.path == "/__stats":
            return self._send(200, json.dumps(owner.stats()).encode())
        if self.path == "/__requests":
            return self._send(200, json.dumps([vars(request) for request in owner.requests]).encode())
        if self._refused():
            return None
        if self.path != "/v1/models":
            return self._send(404, _error("no such page"))
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "x"} for name in owner.models]
        return self._send(200, json.dumps({"object": "list", "data": listed}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self._refused():
            return
        if self.path != "/v1/chat/completions":
            self._send(404, _error("no such page"))
            return
        owner = self.owner
        owner.enter(1)
        try:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._play(owner.chat(self.path, headers, json.loads(body)), json.loads(body))
        finally:
            owner.enter(-1)

    def _refused(self) -> bool:
        key = self.owner.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self._send(401, _error(f"Incorrect API key provided: {self.headers.get('Authorization')}"))
        return True

    def _play(self, reply: Reply, body: dict[str, Any]) -> None:
        stopping = self.owner.stopping
        if reply.hang:
            stopping.wait()
            self.close_connection = True
            return
        stopping.wait(reply.delay)
        data = _body(reply, body)
        if reply.cut is not None:
            self._head(reply.status, len(data), reply.headers)
            self.wfile.write(data[: reply.cut])
            self._hang_up()
        elif reply.drip:
            self._head(reply.status, len(data), reply.headers)
            for start in range(0, len(data), 16):
                self.wfile.write(data[start : start + 16])
                if stopping.wait(reply.drip):
                    return
        else:
            self._send(reply.status, data, reply.headers)

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self._head(status, len(data), headers or {})
        self.wfile.write(data)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _hang_up(self) -> None:
        """Reset the connection, so that the client cannot take it for an orderly end."""
        self.wfile.flush()
        time.sleep(0.05)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _error(message: str | dict[str, Any]) -> bytes:
    fields = message if isinstance(message, dict) else {"message": message, "type": "error", "code": None}
    return json.dumps({"error": fields}).encode()


def _body(reply: Reply, request: dict[str, Any]) -> bytes:
    if reply.raw is not None:
        return reply.raw.encode()
    if reply.status >= 400:
        return _error(reply.error or f"scripted status {reply.status}")
    message = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    choices = [{"index": 0, "message": message, "finish_reason": reply.finish_reason}]
    prompt = sum(len(item["content"]) for item in request["messages"]) // 4 + 1
    completion = len(reply.text) // 4 + 1
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": reply.model or request.get("model", "m"),
        "choices": choices if reply.choices is None else reply.choices,
        "usage": usage if reply.usage is None else reply.usage,
    }
    if reply.usage == {}:
        del answer["usage"]
    return json.dumps(answer).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=None)
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    server = OpenAIServer(Script.read(options.script), key=options.key, port=options.port, log=options.log)
    print(server.url, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
