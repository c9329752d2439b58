"""The line protocol between engine and worker: one JSON object a line on the worker's standard streams.

engine → worker   {"type": "start", "protocol": 1, …StartMessage}                        once, first
worker → engine   {"id": 7, "method": "terminal.read", "params": {…}}                    one at a time
engine → worker   {"id": 7, "ok": {…}}  or  {"id": 7, "error": {"kind": …, "message": …}}
worker → engine   {"id": null, "method": "log" | "done", "params": {…}}                  no answer

Requests and their fields (`METHODS`) are the whole of what a worker can ask for. The engine checks every line against
this table and treats anything else as a protocol violation. Bytes travel as base64 (`data`).
"""

from __future__ import annotations

import json
from typing import Any, cast

from harness.errors import WireError

PROTOCOL = 1
MAX_LINE_BYTES = 16 * 1024 * 1024

# method -> {field: (type or types, required)}
METHODS: dict[str, dict[str, tuple[tuple[type, ...], bool]]] = {
    # messages: [{"role", "content"}]; purpose: "turn" | "summary" | "questions" | "answers" | … (a label, no effect)
    # ok: {"text", "reasoning", "usage": {"prompt_tokens", "completion_tokens", "cached_tokens"}}
    "model.complete": {"messages": ((list,), True), "purpose": ((str,), False)},
    # keys: [{"text": str} | {"key": tmux name}]; wait: seconds.  ok: {"recreated": bool}
    "terminal.send": {"keys": ((list,), True), "wait": ((int, float), True)},
    # scope: "screen" | "scrollback" | "new".  ok: the fields of types.Snapshot
    "terminal.read": {"scope": ((str,), True)},
    # ok: the fields of types.Executed
    "sandbox.exec": {"command": ((str,), True), "cwd": ((str,), False), "timeout": ((int, float), False),
                     "stdin": ((str,), False)},
    # ok: {"data": base64, "truncated": bool}
    "sandbox.read_file": {"path": ((str,), True), "max_bytes": ((int,), False)},
    # ok: {"size": bytes written}
    "sandbox.write_file": {"path": ((str,), True), "data": ((str,), True), "append": ((bool,), False)},
    # kind: "trace" (calls: [TraceCall fields]) | "note" (text)
    "log": {"kind": ((str,), True), "calls": ((list,), False), "text": ((str,), False)},
    # reason: Ending.reason
    "done": {"reason": ((str,), True), "detail": ((str,), False)},
}
NOTIFICATIONS = frozenset({"log", "done"})

# context_overflow, reply_truncated (carries "text"), model_unavailable, stopped, refused (bad path, bad key, …)
ERROR_KINDS = ("context_overflow", "reply_truncated", "model_unavailable", "stopped", "refused")


def encode(message: dict[str, Any]) -> bytes:
    """One line, ASCII only, so that no byte depends on a locale. Raises WireError for NaN and for what JSON lacks."""
    try:
        line = json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except (TypeError, ValueError) as error:
        raise WireError(f"not a JSON message: {error}") from error
    if len(line) > MAX_LINE_BYTES:
        raise WireError(f"line of {len(line)} bytes; at most {MAX_LINE_BYTES} are allowed")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """The object of one line. Raises WireError when it is not exactly one JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise WireError("a line must hold one JSON object")
    return cast(dict[str, Any], message)


def check_request(message: dict[str, Any]) -> tuple[int | None, str, dict[str, Any]]:
    """`(id, method, params)` of a worker's line, or WireError that says which field is wrong."""
    if set(message) != {"id", "method", "params"}:
        raise WireError(f"a request has exactly id, method and params; got {sorted(map(str, message))[:8]}")
    number, method, params = message["id"], message["method"], message["params"]
    fields = METHODS.get(method) if isinstance(method, str) else None
    if fields is None:
        raise WireError(f"unknown method {str(method)[:40]!r}")
    if not isinstance(params, dict):
        raise WireError(f"{method}: params must be an object")
    _check_id(number, method)
    checked = cast(dict[str, Any], params)
    _check_params(method, checked, fields)
    return number, method, checked


def _check_id(number: object, method: str) -> None:
    wanted = method not in NOTIFICATIONS
    if wanted and (not isinstance(number, int) or isinstance(number, bool)):
        raise WireError(f"{method}: id must be an integer")
    if not wanted and number is not None:
        raise WireError(f"{method}: id must be null")


def _check_params(method: str, params: dict[str, Any], fields: dict[str, tuple[tuple[type, ...], bool]]) -> None:
    for name in params.keys() - fields.keys():
        raise WireError(f"{method}: unknown field {str(name)[:40]!r}")
    for name, (types, required) in fields.items():
        if name not in params:
            if required:
                raise WireError(f"{method}: field {name!r} is missing")
            continue
        value = params[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise WireError(f"{method}: field {name!r} has the wrong type")
