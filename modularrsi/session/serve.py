"""The serving loop: every request of a worker is checked, answered, limited and recorded here, and nowhere else.

The worker is hostile. It can ask for what `harness.wire.METHODS` lists; it cannot choose a model, a
parameter, a path outside its sandbox, more time, more turns or more money, and it cannot write into the record: the
recorder hears of each thing from this loop, as it is served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from harness import wire
from harness.errors import WireError
from modularrsi.cage.worker import Worker, WorkerGone
from modularrsi.errors import Failure, SandboxError
from modularrsi.recorder.recorder import Recorder
from modularrsi.session.model import ModelPort
from modularrsi.session.refusal import Refused
from modularrsi.session.tools import ToolPort

_MAX_LOGS = 20_000
_LEAST_WAIT = 0.02
THINK_SECONDS = 120.0
"""How long a harness may compute between two requests: its functions handle texts, none needs minutes."""

# Endings that are a failure of the harness: it could not run, or found no way on. Scored like any other.
_AGENTS_FAULT = ("function_error", "library_error", "composition_error", "context_overflow", "faults")


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended. `ending` is the harness's own word ("complete", "max_turns" …) or the engine's for an end
    it forced; `failure` is set when something went wrong, with its owner."""

    ending: str
    detail: str = ""
    failure: Failure | None = None


class Session:
    """Serves one started `Worker` until it is done, breaks the rules, falls silent, or the deadline passes."""

    def __init__(self, worker: Worker, model: ModelPort, tools: ToolPort, recorder: Recorder) -> None:
        self._worker, self._recorder = worker, recorder
        self._model, self._tools = model, tools
        self._logs = 0
        self._handlers: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "model.complete": model.complete,
            "terminal.send": tools.send,
            "terminal.read": tools.read,
            "sandbox.exec": tools.exec,
            "sandbox.read_file": tools.read_file,
            "sandbox.write_file": tools.write_file,
        }

    async def serve(self, start: dict[str, Any], seconds: float | None) -> SessionEnd:
        """Send `start`, then answer until the end; `seconds` is the task's agent time limit (None = unlimited)."""
        try:
            return await self._within(seconds, self._serve(start))
        except TimeoutError:
            message = f"the agent used up its {seconds:.0f} s"
            return SessionEnd("deadline", message, Failure("agent", "deadline", message))
        except WireError as error:
            self._recorder.violation(str(error))
            return SessionEnd("protocol_violation", str(error), Failure("agent", "protocol_violation", str(error)))
        except WorkerGone as gone:
            return SessionEnd(gone.cause, str(gone), Failure("agent", gone.cause, str(gone)))
        except SandboxError as error:
            return SessionEnd("sandbox_failed", str(error), Failure("sandbox", error.cause, str(error)))

    async def _within(self, seconds: float | None, work: Coroutine[Any, Any, SessionEnd]) -> SessionEnd:
        """`work`, for `seconds` of the agent's own time. The clock stands still while a call waits at a limit and while
        the service fails: such a fault may end the rollout unscored, but never as if the agent had been too slow.

        Raises TimeoutError.
        """
        task, began = asyncio.ensure_future(work), time.monotonic()
        try:
            while True:
                left = None if seconds is None else seconds + self._model.lost - (time.monotonic() - began)
                if left is not None and left <= 0:
                    raise TimeoutError
                done, _ = await asyncio.wait({task}, timeout=None if left is None else max(left, _LEAST_WAIT))
                if done:
                    return task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _serve(self, start: dict[str, Any]) -> SessionEnd:
        await self._worker.send(start)
        while True:
            number, method, params = wire.check_request(await self._worker.receive(THINK_SECONDS))
            if method == "done":
                return self._done(params)
            if method == "log":
                self._log(params)
            else:
                await self._send(await self._answer(number, method, params))

    async def _send(self, message: dict[str, Any]) -> None:
        """A worker that asks and does not read the answers must not hold a rollout without a time limit for ever."""
        try:
            async with asyncio.timeout(THINK_SECONDS):
                await self._worker.send(message)
        except TimeoutError:
            raise WorkerGone("worker_stalled", f"the worker read nothing for {THINK_SECONDS:.0f} s") from None

    async def _answer(self, number: int | None, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"id": number, "ok": await self._handlers[method](params)}
        except Refused as refused:
            return {"id": number, "error": {"kind": refused.kind, "message": str(refused), **refused.extra}}

    def _log(self, params: dict[str, Any]) -> None:
        self._logs += 1
        if self._logs > _MAX_LOGS:
            raise WireError(f"more than {_MAX_LOGS} log lines")
        if params["kind"] == "trace":
            self._recorder.trace(params.get("calls", []))
        elif params["kind"] == "note":
            self._recorder.note(params.get("text", ""))
        else:
            raise WireError("log: kind must be trace or note")

    def _done(self, params: dict[str, Any]) -> SessionEnd:
        """The worker says it is finished. A fault of the service or the engine that it could not get past owns the
        end; a library that cannot run, or that gives up, is the candidate's own fault."""
        reason, detail = params["reason"][:80], params.get("detail", "")[:2_000]
        failure = self._model.failure
        if failure is None and reason in _AGENTS_FAULT:
            failure = Failure("agent", reason, detail or reason)
        return SessionEnd(reason, detail, failure)
