"""The worker's side of the wire: blocking requests, and the capabilities of `harness.context` over them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal, cast

from harness import wire
from harness.errors import (
    ContextOverflow,
    EngineRefusal,
    ModelUnavailable,
    ReplyTruncated,
    Stopped,
    WireError,
)
from harness.history import clean
from harness.types import Completion, Executed, Key, Message, Snapshot, Usage

WRITE_CHUNK_BYTES = 4 * 1024 * 1024

_REFUSALS: dict[str, type[EngineRefusal]] = {
    refusal.kind: refusal for refusal in (ContextOverflow, ModelUnavailable, Stopped, EngineRefusal)
}


class Engine:
    """One request at a time over a pair of binary streams."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask and wait for the answer. Raises the matching EngineRefusal, or WireError for a broken answer."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        answer = self.receive()
        if answer.get("id") != self._number:
            raise WireError(f"answer to request {answer.get('id')!r}, expected {self._number}")
        if "error" in answer:
            raise _refusal(answer["error"])
        if not isinstance(answer.get("ok"), dict):
            raise WireError(f"{method}: an answer holds either ok or error")
        return _cleaned(answer["ok"])

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a line that has no answer (`log`, `done`)."""
        self._send({"id": None, "method": method, "params": params})

    def receive(self) -> dict[str, Any]:
        """The next line from the engine. Raises Stopped when the engine has gone."""
        line = self._reader.readline(wire.MAX_LINE_BYTES + 1)
        if not line.endswith(b"\n"):
            if len(line) > wire.MAX_LINE_BYTES:
                raise WireError(f"line of more than {wire.MAX_LINE_BYTES} bytes")
            raise Stopped("the engine closed the connection")
        return wire.decode(line)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            line = wire.encode(_cleaned(message))
        except WireError as error:
            # The function asked for something that cannot be asked (NaN, 20 MB): the same to it as a refusal.
            raise EngineRefusal(str(error)) from error
        try:
            self._writer.write(line)
            self._writer.flush()
        except OSError as error:
            raise Stopped("the engine closed the connection") from error


def _cleaned(value: Any) -> Any:
    """The value with every text in it cleaned of NUL and lone surrogates."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {key: _cleaned(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in cast("Sequence[Any]", value)]
    return value


def _refusal(error: Any) -> EngineRefusal:
    """The exception for an answer's `error` (`wire.ERROR_KINDS`); an unknown kind is a plain refusal."""
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    kind, message = fields.get("kind"), clean(str(fields.get("message", "refused")))
    if kind == ReplyTruncated.kind:
        return ReplyTruncated(message, clean(str(fields.get("text", ""))))
    return _REFUSALS.get(str(kind), EngineRefusal)(message)


class RemoteModel:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def complete(self, messages: Sequence[Message], purpose: str = "turn") -> Completion:
        params = {"messages": [{"role": m.role, "content": m.content} for m in messages], "purpose": purpose}
        _refuse_oversize(messages)
        ok = self._engine.request("model.complete", params)
        usage = ok.get("usage")
        counts = _known(Usage, cast("dict[str, Any]", usage)) if isinstance(usage, dict) else {}
        return Completion(str(ok.get("text", "")), str(ok.get("reasoning") or ""), Usage(**counts))


def _refuse_oversize(messages: Sequence[Message]) -> None:
    """A request that no line can carry is too long for any model: the same policy helps."""
    characters = sum(len(message.content) for message in messages)
    if characters > wire.MAX_LINE_BYTES // 2:
        raise ContextOverflow(f"{characters} characters of messages are more than a request can carry")


class RemoteTerminal:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        typed = [{"key": key.name} if isinstance(key, Key) else {"text": key} for key in keys]
        return bool(self._engine.request("terminal.send", {"keys": typed, "wait": wait}).get("recreated"))

    def read(self, scope: Literal["screen", "scrollback", "new"] = "new") -> Snapshot:
        return Snapshot(**_known(Snapshot, self._engine.request("terminal.read", {"scope": scope})))


class RemoteSandbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def exec(self, command: str, *, cwd: str = "", timeout: float = 30.0, stdin: str = "") -> Executed:
        params = {"command": command, "cwd": cwd, "timeout": timeout, "stdin": stdin}
        return Executed(**_known(Executed, self._engine.request("sandbox.exec", params)))

    def read_file(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        ok = self._engine.request("sandbox.read_file", {"path": path, "max_bytes": max_bytes})
        try:
            return base64.b64decode(ok["data"], validate=True)
        except (KeyError, TypeError, binascii.Error) as error:
            raise WireError(f"sandbox.read_file: data is not base64: {error!r}") from error

    def write_file(self, path: str, data: bytes, append: bool = False) -> int:
        """A large file goes in several requests, since a line has a limit; one that fails leaves what went before."""
        chunks = [data[at : at + WRITE_CHUNK_BYTES] for at in range(0, len(data), WRITE_CHUNK_BYTES)] or [b""]
        for index, chunk in enumerate(chunks):
            text = base64.b64encode(chunk).decode("ascii")
            params = {"path": path, "data": text, "append": append or index > 0}
            self._engine.request("sandbox.write_file", params)
        return len(data)


def _known(kind: type, ok: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer that the type has: a newer engine may say more."""
    names = cast("dict[str, Any]", kind.__dict__["__dataclass_fields__"])
    return {name: value for name, value in ok.items() if name in names}
