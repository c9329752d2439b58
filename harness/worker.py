"""The worker process: one rollout, spoken to over its standard streams (`harness.wire`).

It reads one `start` line, loads the library, validates the composition, runs `drive`, and says `done`. A library's
own `print` cannot break the protocol: the streams are moved to private descriptors before any of its code runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, cast

from harness import wire
from harness.client import Engine, RemoteModel, RemoteSandbox, RemoteTerminal
from harness.composition import Composition
from harness.errors import CompositionError, EngineRefusal, LibraryError, WireError
from harness.kernel import Rollout
from harness.loader import load_library
from harness.registry import Function
from harness.types import Ending, Limits, McpServer, Skill, Task

REASON_CHARS = 80
DETAIL_CHARS = 2000


def main() -> int:
    """Serve one rollout. Exit code 0 after `done`, 1 when the engine's own lines cannot be understood."""
    reader, writer = take_streams()
    engine = Engine(reader, writer)
    try:
        ending = serve(engine)
    except WireError as error:
        print(f"harness worker: {error}", file=sys.stderr)
        finish(engine, Ending("protocol_error", str(error)))
        return 1
    except EngineRefusal as error:
        ending = Ending("stopped", error.message)
    finish(engine, ending)
    return 0


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of standard input and output; 0 then reads nothing, and 1 writes to standard error."""
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return os.fdopen(reader, "rb"), os.fdopen(writer, "wb")


def serve(engine: Engine) -> Ending:
    """Run the rollout that the `start` line describes."""
    start = engine.receive()
    _check_start(start)
    task, limits = _task(start["task"]), _fields(Limits, start.get("limits") or {}, "limits")
    try:
        active = _active(start["library"], start.get("composition"))
    except LibraryError as error:
        return Ending("library_error", str(error))
    except CompositionError as error:
        return Ending("composition_error", str(error))
    rollout = Rollout(
        active,
        RemoteModel(engine),
        RemoteTerminal(engine),
        RemoteSandbox(engine),
        lambda params: engine.notify("log", params),
        task,
        limits,
    )
    return rollout.drive()


def _active(root: str, given: Any) -> dict[str, tuple[Function, ...]]:
    """The functions to run. Only they are imported, so a large library does not make a worker slow."""
    composition = Composition.brought(root) if given is None else Composition.from_json(given)
    library = load_library(root, composition and composition.keys())
    composition = composition or Composition.default(library.registry)
    return composition.resolve(library.registry)


def finish(engine: Engine, ending: Ending) -> None:
    """Say `done`. When the engine has gone there is nobody left to tell."""
    with suppress(EngineRefusal):
        engine.notify("done", {"reason": ending.reason[:REASON_CHARS], "detail": ending.detail[:DETAIL_CHARS]})


def _check_start(start: dict[str, Any]) -> None:
    if start.get("type") != "start":
        raise WireError("the first line must be the start message")
    if start.get("protocol") != wire.PROTOCOL:
        raise WireError(f"protocol {start.get('protocol')!r}; this worker speaks {wire.PROTOCOL}")
    for name, kind in (("task", dict), ("library", str)):
        if not isinstance(start.get(name), kind):
            raise WireError(f"start: field {name!r} is missing or has the wrong type")


def _task(data: dict[str, Any]) -> Task:
    skills = tuple(_fields(Skill, item, "task.skills") for item in _list(data, "skills"))
    servers = tuple(_server(item) for item in _list(data, "mcp_servers"))
    return _fields(Task, {**data, "skills": skills, "mcp_servers": servers}, "task")


def _server(item: Any) -> McpServer:
    server: McpServer = _fields(McpServer, item, "task.mcp_servers")
    return replace(server, args=tuple(server.args))


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise WireError(f"start: task.{name} must be a list")
    return cast("list[Any]", value)


def _fields(kind: type[Any], data: object, where: str) -> Any:
    """`kind(**data)`; an unknown or missing field is the engine's fault."""
    if not isinstance(data, Mapping):
        raise WireError(f"start: {where} must be an object")
    try:
        return kind(**cast("Mapping[str, Any]", data))
    except TypeError as error:
        raise WireError(f"start: {where}: {error}") from error
