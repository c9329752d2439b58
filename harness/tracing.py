"""The one door through which the kernel calls functions: traced, typed, and never silent about an error.

`Tracer.call` runs a function, checks what it returned, and keeps a `TraceCall`. An exception becomes a
`FunctionError` that names the function; it is also remembered in `Tracer.failure`, so that a `drive` which catches
everything cannot make a broken function look like a good run. `EngineRefusal` passes through untouched, since what to
do then is policy; so does `WireError`, which is nobody's policy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from harness.errors import EngineRefusal, FunctionError, WireError
from harness.points import POINTS
from harness.registry import Function
from harness.results import complaint
from harness.types import (
    Advice,
    Decision,
    Ending,
    Grammar,
    Guidance,
    Recovery,
    Reply,
    Routed,
    Snapshot,
    TraceCall,
)

OUTCOME_CHARS = 200
CALLS_PER_LINE = 500

T = TypeVar("T")


class Tracer:
    """Calls functions, keeps the trace, and knows whose turn it is (`memo`).

    `send` gets lists of trace calls as plain dictionaries: `flush` is called at turn ends and at the end of the run.
    """

    def __init__(self, send: Callable[[list[dict[str, Any]]], None]) -> None:
        self.turn = 0
        self.failure: FunctionError | None = None
        self._send = send
        self._calls: list[TraceCall] = []
        self._stack: list[str] = []
        self._memos: dict[str, dict[str, Any]] = {}

    @property
    def memo(self) -> dict[str, Any]:
        """The memory of the function now running; outside every function, one of its own."""
        return self._memos.setdefault(self._stack[-1] if self._stack else "", {})

    def call(self, entry: Function, *args: Any) -> Any:
        """Run the function at its point and check the type of its answer. Raises FunctionError, EngineRefusal."""
        wanted = POINTS[entry.point].returns
        return self.run(entry, lambda: entry.call(*args), wanted, _outcome_of(args))

    def run(self, entry: Function, work: Callable[[], T], wanted: str, outcome: Callable[[T], str]) -> T:
        """Run `work` as `entry` (its memo, its name in the trace); it must return `wanted`, "" for anything."""
        started = perf_counter()
        text = ""
        self._stack.append(entry.key)
        try:
            result = work()
            text = wanted and complaint(result, wanted)
            if text:
                raise self.fail(entry, text)
            text = outcome(result)
            return result
        except FunctionError as error:
            text = text or f"passed on {error}"
            raise
        except (EngineRefusal, WireError) as error:
            text = _words(error)
            raise
        # The boundary to code that was written by a model: whatever it raises ends this run with its name on it.
        except (Exception, SystemExit) as error:
            text = _words(error)
            raise self.fail(entry, text) from error
        finally:
            self._stack.pop()
            self.note(entry, (perf_counter() - started) * 1000, text or "did not return")

    def fail(self, entry: Function, what: str) -> FunctionError:
        """The error of `entry`, to be raised; the first one is remembered."""
        error = FunctionError(f"{entry.key}: {what}")
        if self.failure is None:
            self.failure = error
        return error

    def note(self, entry: Function, milliseconds: float, outcome: str) -> None:
        short = outcome if len(outcome) <= OUTCOME_CHARS else outcome[: OUTCOME_CHARS - 1] + "…"
        tag = entry.tag
        self._calls.append(TraceCall(self.turn, tag.module, tag.point, entry.name, round(milliseconds, 3), short))

    def flush(self) -> None:
        """Hand the calls kept so far to the engine, in lines of bounded length."""
        calls, self._calls = self._calls, []
        for start in range(0, len(calls), CALLS_PER_LINE):
            self._send([dataclasses.asdict(call) for call in calls[start : start + CALLS_PER_LINE]])


def _words(error: BaseException) -> str:
    """What an exception says, even one that cannot be printed."""
    try:
        return f"raised {type(error).__name__}: {error}"
    # Any `__str__` can be behind this, and the error must still get its function's name.
    except Exception:  # noqa: BLE001
        return f"raised {type(error).__name__}"


def _outcome_of(args: tuple[Any, ...]) -> Callable[[Any], str]:
    before: object = args[0] if args else None
    if isinstance(before, str):
        return lambda result: _rewrite(before, result)
    return summarise


def _rewrite(before: str, after: object) -> str:
    if not isinstance(after, str):
        return summarise(after)
    return "unchanged" if after == before else f"{len(before)} → {len(after)} characters"


def summarise(result: object) -> str:
    """A few words on what a function answered, for the trace."""
    match result:
        case str():
            return f"{len(result)} characters"
        case Snapshot():
            return f"{result.scope}, {len(result.text)} characters" + (", recreated" if result.recreated else "")
        case Grammar():
            return result.name
        case Reply():
            return f"error: {result.error}" if result.error else _reply(result)
        case Routed():
            return (f"helper {result.helper}" if result.helper else "keystrokes") + _after(": ", result.error)
        case Guidance():
            return f"hold {len(result.hold)}, reopen {len(result.reopen)}" + _after(", feedback: ", result.feedback)
        case Advice():
            return f"stop={result.stop}" + _after(": ", result.reason)
        case Decision():
            return f"stop={result.stop}" + _after(": ", result.reason or result.prompt)
        case Recovery():
            return f"stop: {result.stop}" if result.stop else ("use a reply" if result.reply else "ask again")
        case Ending():
            return result.reason + _after(": ", result.detail)
        case _:
            return type(result).__name__


def _reply(reply: Reply) -> str:
    return f"{len(reply.commands)} commands" + (", complete" if reply.complete else "")


def _after(mark: str, text: str) -> str:
    return mark + text.replace("\n", " ") if text else ""
