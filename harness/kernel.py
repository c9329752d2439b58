"""The fixed code that runs a composition: one context, one `drive`, one ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from harness.context import Model, Phases, Sandbox, Terminal
from harness.errors import EngineRefusal, FunctionError, Stopped
from harness.history import clean
from harness.phases import Steps
from harness.points import POINTS
from harness.registry import Function
from harness.tracing import Tracer
from harness.types import CommandCall, Ending, Limits, State, Task

NOTE_CHARS = 2000

Log = Callable[[dict[str, Any]], None]


class Rollout:
    """The context of one rollout (`harness.context.Context`), and the run of its `drive`.

    `active` maps each point to its functions in order (`Composition.resolve`); `log` gets the parameters of the wire's
    `log` notification.
    """

    def __init__(
        self,
        active: Mapping[str, tuple[Function, ...]],
        model: Model,
        terminal: Terminal,
        sandbox: Sandbox,
        log: Log,
        task: Task,
        limits: Limits | None = None,
    ) -> None:
        self.task = task
        self.limits = limits or Limits()
        self.state = State()
        self.model = model
        self.terminal = terminal
        self.sandbox = sandbox
        self._log = log
        self._active = dict(active)
        self._tracer = Tracer(lambda calls: log({"kind": "trace", "calls": calls}))
        self.run: Phases = Steps(self, self._active, self._tracer)

    @property
    def memo(self) -> dict[str, Any]:
        return self._tracer.memo

    def active(self, point: str) -> tuple[str, ...]:
        """Names of the active functions at `module/point`. Raises KeyError for a point that does not exist."""
        return tuple(entry.name for entry in self._active.get(POINTS[point].key, ()))

    def describe(self, point: str, name: str) -> tuple[str, str]:
        tag = self._find(point, name).tag
        return tag.describes, tag.usage

    def call_command(self, name: str, head: str, body: str) -> str:
        return self._tracer.call(self._find("tools/command", name), CommandCall(name, head, body), self)

    def log(self, text: str) -> None:
        self._log({"kind": "note", "text": clean(text)[:NOTE_CHARS]})

    def _find(self, point: str, name: str) -> Function:
        for entry in self._active.get(point, ()):
            if entry.name == name:
                return entry
        raise KeyError(f"{point}/{name} is not active")

    def drive(self) -> Ending:
        """Run the rollout to its end; never raises for what a function did.

        Reasons of its own beside those of `drive`: "stopped" (the engine serves no more) and "function_error" (the
        detail names the function).
        """
        entry = self._active["agent_loop/drive"][0]
        self._tracer.note(entry, 0.0, "started")
        try:
            ending: Ending = self._tracer.call(entry, self)
        except Stopped as error:
            ending = Ending("stopped", error.message)
        except EngineRefusal as error:
            ending = Ending("function_error", f"{entry.key}: let {type(error).__name__} through: {error.message}")
        except FunctionError as error:
            ending = Ending("function_error", str(error))
        if self._tracer.failure is not None:
            ending = Ending("function_error", str(self._tracer.failure))
        with suppress(EngineRefusal):
            self._tracer.flush()
        return ending
