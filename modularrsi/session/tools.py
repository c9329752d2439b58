"""What a worker may do in its terminal and its sandbox, with every argument checked and every answer bounded."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, cast

from harness.errors import WireError
from harness.types import Key, Limits
from modularrsi.errors import SandboxError, UserError
from modularrsi.recorder.recorder import Recorder
from modularrsi.sandbox.base import Sandbox
from modularrsi.session.refusal import Refused
from modularrsi.terminal.base import Terminal

_SCOPES = ("screen", "scrollback", "new")
_MAX_TEXT = 4_000_000
_MAX_FILE = 4_000_000
_MAX_KEYS = 10_000
_MAX_EXEC_SECONDS = 600.0
_SURROGATE = re.compile("[\ud800-\udfff]")


class ToolPort:
    """Serves `terminal.*` and `sandbox.*` requests as the agent's user."""

    def __init__(
        self, terminal: Terminal, sandbox: Sandbox, recorder: Recorder, limits: Limits, user: str | int | None
    ) -> None:
        self._terminal, self._sandbox, self._recorder = terminal, sandbox, recorder
        self._limits, self._user = limits, user

    async def send(self, params: dict[str, Any]) -> dict[str, Any]:
        keys = _keys(params["keys"])
        wait = min(_seconds(params["wait"], 0.0), self._limits.max_wait)
        try:
            recreated = await self._terminal.send(keys, wait)
        except UserError as error:
            raise Refused("refused", str(error)) from error
        except SandboxError as error:
            raise await self._shell_lost(error) from error
        self._recorder.sent(keys, wait)
        return {"recreated": recreated}

    async def read(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["scope"] not in _SCOPES:
            raise WireError(f"terminal.read: scope must be one of {', '.join(_SCOPES)}")
        try:
            snapshot = await self._terminal.read(cast(Literal["screen", "scrollback", "new"], params["scope"]))
        except SandboxError as error:
            raise await self._shell_lost(error) from error
        self._recorder.read(snapshot)
        return asdict(snapshot) | {"text": snapshot.text[-_MAX_TEXT:]}

    async def _shell_lost(self, error: SandboxError) -> Exception:
        """A shell that ends again and again in a sandbox that lives is the agent's own work (an `exit` in its profile,
        say): it is told to stop, and what it did is scored."""
        ended = error.cause == "shell_lost" and await self._sandbox.alive()
        return Refused("stopped", str(error)) if ended else error

    async def exec(self, params: dict[str, Any]) -> dict[str, Any]:
        seconds = min(_seconds(params.get("timeout", 30.0), 30.0), _MAX_EXEC_SECONDS)
        _refuse_nul(params["command"], params.get("cwd", ""))
        result = await self._sandbox.exec(
            params["command"],
            cwd=params.get("cwd") or None,
            user=self._user,
            timeout_sec=seconds,
            stdin=params.get("stdin", "").encode("utf-8", "replace"),
        )
        answer = {
            "exit_code": result.exit_code,
            "stdout": result.stdout.decode("utf-8", "replace"),
            "stderr": result.stderr.decode("utf-8", "replace"),
            "timed_out": result.timed_out,
            "truncated": result.truncated,
        }
        self._recorder.sandbox_call("exec", {"command": params["command"]}, answer)
        return answer

    async def read_file(self, params: dict[str, Any]) -> dict[str, Any]:
        _refuse_nul(params["path"])
        limit = max(0, min(params.get("max_bytes", 1_000_000), _MAX_FILE))
        try:
            data = await self._sandbox.read_file(params["path"], limit + 1, user=self._user)
        except SandboxError as error:
            raise _refusal(error) from error
        answer = {"data": base64.b64encode(data[:limit]).decode(), "truncated": len(data) > limit}
        self._recorder.sandbox_call("read_file", {"path": params["path"]}, {"bytes": len(data[:limit])})
        return answer

    async def write_file(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            data = base64.b64decode(params["data"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError("sandbox.write_file: data is not base64") from error
        _refuse_nul(params["path"])
        append = params.get("append", False)
        try:
            await self._sandbox.write_file(params["path"], data, append=append, user=self._user)
        except SandboxError as error:
            raise _refusal(error) from error
        text = data[:_MAX_TEXT].decode("utf-8", "replace")
        self._recorder.sandbox_call("write_file", {"path": params["path"], "content": text}, {"bytes": len(data)})
        return {"size": len(data)}


def _refuse_nul(*texts: str) -> None:
    """No command and no path can hold these. A sandbox that was given them would fail, and leave the agent's work
    unscored for a fault of its own."""
    if any("\0" in text or _SURROGATE.search(text) for text in texts):
        raise Refused("refused", "a command or a path cannot hold NUL or half a character")


def _refusal(error: SandboxError) -> Exception:
    """A file that cannot be read is the agent's business; a sandbox that is gone is not."""
    return error if error.cause == "lost" else Refused("refused", str(error))


def _seconds(value: Any, otherwise: float) -> float:
    """A finite, non-negative number of seconds, whatever a worker sends (`wire` has checked that it is a number)."""
    try:
        seconds = float(value)
    except OverflowError:
        return otherwise
    return max(0.0, seconds) if math.isfinite(seconds) else otherwise


def _keys(items: Sequence[Any]) -> list[str | Key]:
    if len(items) > _MAX_KEYS:
        raise WireError(f"terminal.send: more than {_MAX_KEYS} keys")
    return [_key(item) for item in items]


def _key(item: Any) -> str | Key:
    if isinstance(item, dict) and len(item) == 1:
        kind, value = next(iter(cast(dict[Any, Any], item).items()))
        if isinstance(value, str) and kind == "text":
            return value
        if isinstance(value, str) and kind == "key":
            return Key(value)
    raise WireError('terminal.send: a key is {"text": …} or {"key": …}')
