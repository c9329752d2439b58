"""What every `tools/command` keeps: it answers, in bounded text, and never ends the run by itself."""

from __future__ import annotations

from harness.conformance.base import ContextFactory, require
from harness.conformance.odd_text import ODD, encodable
from harness.conformance.scenes import checked
from harness.errors import EngineRefusal, Stopped
from harness.points import CommandPoint
from harness.registry import TAG_ATTRIBUTE, Tag
from harness.scripted import ScriptedSandbox, ScriptedTerminal
from harness.types import CommandCall, Executed

_HEADS = ("", "/app/notes.txt", "notes.txt", "/", "/no/such/file", "'/app/notes.txt'", "--help", "a b 1 2", "1-2", "\0")
_MOST = 100_000


def case_says_how_it_is_called(fn: CommandPoint, make_context: ContextFactory) -> None:
    """`describes` and `usage` say something, and the usage shows the command's name: the agent learns it from there."""
    tag: object = getattr(fn, TAG_ATTRIBUTE, None)
    require(isinstance(tag, Tag), "it is not tagged")
    name = getattr(fn, "__name__", "")
    if isinstance(tag, Tag):
        require(bool(tag.describes.strip()), "`describes` is blank")
        require(name in tag.usage, f"`usage` does not show {name!r}")


def case_always_answers(fn: CommandPoint, make_context: ContextFactory) -> None:
    """Any head with any body gets an answer that is not blank and can be encoded; nothing is raised."""
    for head in (*_HEADS, *(text[:5_000] for text in ODD.values())):
        for body in ("", "one\ntwo\n", "\ud800\0\x1b[31m"):
            _answer(fn, make_context, CommandCall("it", head, body), _files())
    for body in ODD.values():
        _answer(fn, make_context, CommandCall("it", "/app/notes.txt", body), _files())


def case_answers_are_bounded(fn: CommandPoint, make_context: ContextFactory) -> None:
    """Huge files and huge outputs of programs give answers of at most 100,000 characters."""
    huge = ("x" * 99 + "\n") * 30_000
    for head in ("/app/huge.txt", "x", "x /app", "/app/huge.txt 1-100000"):
        sandbox = ScriptedSandbox({"/app/huge.txt": huge.encode()}, _Answers(Executed(0, huge, huge)))
        answer = _answer(fn, make_context, CommandCall("it", head, ""), sandbox)
        require(len(answer) <= _MOST, f"an answer of {len(answer)} characters")


def case_a_refusal_is_an_answer(fn: CommandPoint, make_context: ContextFactory) -> None:
    """What the engine refuses is told to the agent; programs that fail or time out are too."""
    _answer(fn, make_context, CommandCall("it", "/app/notes.txt", "x\n"), _Refusing(EngineRefusal("not allowed")))
    for outcome in (Executed(2, "", "failed\n"), Executed(None, "", "", timed_out=True)):
        sandbox = ScriptedSandbox({"/app/notes.txt": b"one\n"}, _Answers(outcome))
        _answer(fn, make_context, CommandCall("it", "/app/notes.txt", "x\n"), sandbox)


def case_the_end_of_the_run_passes(fn: CommandPoint, make_context: ContextFactory) -> None:
    """`Stopped` is not swallowed."""
    sandbox = _Refusing(Stopped("out of time"))
    try:
        fn(CommandCall("it", "/app/notes.txt", "x\n"), make_context(sandbox=sandbox))
    except Stopped:
        return
    require(not sandbox.asked, "`Stopped` was swallowed")


def case_leaves_the_terminal_alone(fn: CommandPoint, make_context: ContextFactory) -> None:
    """A helper types nothing: what the terminal runs at the moment is not its business."""
    terminal = ScriptedTerminal()
    fn(CommandCall("it", "/app/notes.txt", "x\n"), make_context(sandbox=_files(), terminal=terminal))
    require(not terminal.sent, f"typed {terminal.sent}")


class _Answers(dict[str, Executed]):
    """The same outcome for every command."""

    def __init__(self, outcome: Executed) -> None:
        super().__init__()
        self._outcome = outcome

    def get(self, key: str, default: object = None) -> Executed:  # type: ignore[override]
        return self._outcome


class _Refusing(ScriptedSandbox):
    """Refuses everything. `asked`: whether it was asked at all."""

    def __init__(self, error: EngineRefusal) -> None:
        super().__init__()
        self._error = error
        self.asked = False

    def _refuse(self) -> EngineRefusal:
        self.asked = True
        return self._error

    def exec(self, command: str, *, cwd: str = "", timeout: float = 30.0, stdin: str = "") -> Executed:
        raise self._refuse()

    def read_file(self, path: str, max_bytes: int = 1_000_000) -> bytes:
        raise self._refuse()

    def write_file(self, path: str, data: bytes, append: bool = False) -> int:
        raise self._refuse()


def _files() -> ScriptedSandbox:
    files = {"/app/notes.txt": b"one\ntwo\nthree\n", "/app/binary": bytes(range(256)), "/app/empty": b""}
    return ScriptedSandbox(files)


def _answer(fn: CommandPoint, make_context: ContextFactory, call: CommandCall, sandbox: ScriptedSandbox) -> str:
    answer = checked(fn(call, make_context(sandbox=sandbox)), str)
    require(bool(answer.strip()), f"no answer to {call.head[:40]!r}")
    require(encodable(answer), f"an answer with a lone surrogate to {call.head[:40]!r}")
    return answer
