"""The shipped fakes: a model, a terminal and a sandbox that answer from a script, and a context over them.

For tests and conformance suites. `make_context` returns a real kernel (`harness.kernel.Rollout`): what a function does
in it is what it does in a rollout.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.errors import EngineRefusal, Stopped
from harness.kernel import Log, Rollout
from harness.points import POINTS
from harness.registry import Function, tagged
from harness.standins import STANDINS
from harness.types import Completion, Executed, Key, Limits, Message, Snapshot, Task

Answer = str | Completion | Exception
Exec = Callable[[str], Executed]


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded model request."""

    messages: tuple[Message, ...]
    purpose: str


class ScriptedModel:
    """Answers in order: a text, a `Completion`, or an exception to raise. `requests` records what it was asked.

    An answer may also be a function of the messages. When the script is over it raises `Stopped`, as the engine does
    when the budget is used up; `then` is an answer to repeat for ever instead.
    """

    def __init__(
        self,
        answers: Iterable[Answer | Callable[[Sequence[Message]], Answer]] = (),
        then: Answer | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)
        self._then = then

    def complete(self, messages: Sequence[Message], purpose: str = "turn") -> Completion:
        self.requests.append(Request(tuple(messages), purpose))
        answer = self._answers.pop(0) if self._answers else self._then
        if answer is None:
            raise Stopped("the script of the model is over")
        if not isinstance(answer, str | Completion | Exception):
            answer = answer(messages)
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer) if isinstance(answer, str) else answer


@dataclass(frozen=True, slots=True)
class Effect:
    """What one `send` does to a `ScriptedTerminal`: `output` appears, and the flags hold until the next effect.

    `clear` empties the screen and the scrollback first, so that the next "new" reading is not complete; `recreated`:
    the session had died, and this `send` (and the next reading) says so.
    """

    output: str = ""
    clear: bool = False
    alternate: bool = False
    busy: bool | None = False
    waiting: bool = False
    recreated: bool = False


class ScriptedTerminal:
    """A terminal whose text is programmed, one effect a `send`.

    `effects`: an `Effect` or just its output. After them, and when there are none, typed lines are echoed after the
    prompt as an idle shell does. `sent` records (keys, wait) of each send. `screen` is what is there at the start.
    """

    PROMPT = "$ "

    def __init__(
        self,
        effects: Iterable[Effect | str] = (),
        screen: str = PROMPT,
        rows: int = 40,
        respond: Callable[[str], Effect | str] | None = None,
    ) -> None:
        self.sent: list[tuple[tuple[str | Key, ...], float]] = []
        self._effects = list(effects)
        self._respond = respond or self._echo
        self._text = screen
        self._rows = rows
        self._seen = 0
        self._cleared = False
        self._recreated = False
        self._state = Effect()

    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        self.sent.append((tuple(keys), wait))
        effect = self._effects.pop(0) if self._effects else self._respond(_typed(keys))
        effect = Effect(effect) if isinstance(effect, str) else effect
        if effect.clear or effect.recreated:
            self._text, self._seen, self._cleared = "", 0, True
        self._text += effect.output
        self._recreated = self._recreated or effect.recreated
        self._state = effect
        return effect.recreated

    def read(self, scope: Literal["screen", "scrollback", "new"] = "new") -> Snapshot:
        complete = not (scope == "new" and (self._cleared or self._state.alternate))
        lines = self._text.split("\n")
        text = self._text if scope == "scrollback" else "\n".join(lines[-self._rows :])
        if scope == "new":
            text = self._text[self._seen :] if complete else text
            self._seen, self._cleared = len(self._text), False
        state, recreated = self._state, self._recreated
        self._recreated = False
        return Snapshot(text, scope, complete, state.alternate, state.busy, state.waiting, recreated, len(lines))

    @property
    def typed(self) -> str:
        """All literal text that was sent, in order."""
        return "".join(_typed(keys) for keys, _ in self.sent)

    def _echo(self, typed: str) -> str:
        return typed.replace("\n", f"\n{self.PROMPT}")


def _typed(keys: Sequence[str | Key]) -> str:
    return "".join(key for key in keys if isinstance(key, str))


@dataclass(slots=True)
class ScriptedSandbox:
    """A file system that is a dictionary (absolute path → bytes) and an `exec` that answers from a script.

    `answers` maps a command, or its first word, to an `Executed` or a function of the command; others exit with 127.
    `executed` records the commands. Relative paths count from `cwd`.
    """

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    answers: Mapping[str, Executed | Exec] = field(default_factory=dict[str, "Executed | Exec"])
    cwd: str = "/app"
    executed: list[str] = field(default_factory=list[str])

    def exec(self, command: str, *, cwd: str = "", timeout: float = 30.0, stdin: str = "") -> Executed:
        self.executed.append(command)
        first = command.split(maxsplit=1)[0] if command.split() else ""
        answer = self.answers.get(command, self.answers.get(first))
        if answer is None:
            return Executed(127, stderr=f"{first}: command not found\n")
        return answer if isinstance(answer, Executed) else answer(command)

    def read_file(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        full = self._full(path)
        if full not in self.files:
            raise EngineRefusal(f"{path}: no such file")
        return self.files[full][:max_bytes]

    def write_file(self, path: str, data: bytes, append: bool = False) -> int:
        full = self._full(path)
        if any(other.startswith(f"{full}/") for other in self.files):
            raise EngineRefusal(f"{path}: is a directory")
        self.files[full] = (self.files.get(full, b"") if append else b"") + data
        return len(data)

    def _full(self, path: str) -> str:
        if not path or "\0" in path:
            raise EngineRefusal(f"{path!r}: not a path")
        return posixpath.normpath(posixpath.join(self.cwd, path))


class ScriptedContext(Rollout):
    """A kernel over the fakes. `logged` records the parameters of every `log` notification."""

    def __init__(
        self,
        active: Mapping[str, tuple[Function, ...]],
        model: ScriptedModel,
        terminal: ScriptedTerminal,
        sandbox: ScriptedSandbox,
        task: Task,
        limits: Limits,
    ) -> None:
        self.logged: list[dict[str, Any]] = []
        log: Log = self.logged.append
        super().__init__(active, model, terminal, sandbox, log, task, limits)

    @property
    def notes(self) -> list[str]:
        return [entry["text"] for entry in self.logged if entry["kind"] == "note"]

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The trace calls so far, as they went to the engine (flushed first)."""
        self._tracer.flush()
        return [call for entry in self.logged if entry["kind"] == "trace" for call in entry["calls"]]


def make_context(
    *functions: Callable[..., Any] | Function,
    model: ScriptedModel | Iterable[Answer] = (),
    terminal: ScriptedTerminal | Iterable[Effect | str] = (),
    sandbox: ScriptedSandbox | None = None,
    task: Task | None = None,
    limits: Limits | None = None,
) -> ScriptedContext:
    """A working context with these functions active (tagged ones), stand-ins at the other points that must have one.

    Several functions at one `many` point keep their order; a function at a `one` point takes the stand-in's place.
    `model` and `terminal` may be just the answers and the effects.
    """
    return ScriptedContext(
        _activate(functions),
        model if isinstance(model, ScriptedModel) else ScriptedModel(model),
        terminal if isinstance(terminal, ScriptedTerminal) else ScriptedTerminal(terminal),
        sandbox or ScriptedSandbox(),
        task or Task("Create /app/hello.txt with the text hello.", workdir="/app"),
        limits or Limits(),
    )


def _activate(functions: Iterable[Callable[..., Any] | Function]) -> dict[str, tuple[Function, ...]]:
    active = dict(STANDINS)
    for given in functions:
        entry = given if isinstance(given, Function) else tagged(given)
        one = POINTS[entry.point].arity == "one"
        active[entry.point] = (entry,) if one else (*active.get(entry.point, ()), entry)
    return active
