"""What every `tools/route` keeps: keystrokes arrive as they are, waits are bounded, helpers get their bytes.

A command that calls a helper has the helper's name as the first word of its first line (`CommandCall`). Routes that do
not dispatch helpers (tag `dispatches_commands`) are not asked to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import checked
from harness.context import Context
from harness.errors import EngineRefusal, Stopped
from harness.points import Route
from harness.registry import TAG_ATTRIBUTE, Tag, function
from harness.scripted import ScriptedTerminal
from harness.types import Command, CommandCall, Key, Limits, Routed

_TEXTS = (
    "ls -la\n",
    "echo 'a;b' ;",
    "!x\n",
    "Up\n",
    "echo Up",
    "echo C-c\n",
    "cat > f <<'EOF'\n\tindented $HOME `x` \\n \"q\"\n\nEOF\n",
    "printf 'naïve 日本語 😀'\n",
    "-l\n",
    "x" * 6_000 + "\n",
    "probe-like text\n",
)


def case_types_text_as_it_is(fn: Route, make_context: ContextFactory) -> None:
    """What is no key name is typed literally, once, byte for byte."""
    for text in _TEXTS:
        terminal = ScriptedTerminal()
        routed = fn(Command(text, 0.5), make_context(terminal=terminal))
        require(terminal.typed == text, f"{text[:40]!r} was typed as {terminal.typed[:40]!r}")
        keys = [key for keys, _ in terminal.sent for key in keys if isinstance(key, Key)]
        require(not keys, f"{text[:40]!r} pressed {keys}")
        require(not routed.error and not routed.helper, f"{text[:40]!r} is reported as {routed}")


def case_presses_named_keys(fn: Route, make_context: ContextFactory) -> None:
    """Keystrokes that are exactly a key name press that key."""
    for name in ("C-c", "C-d", "Enter", "Up", "Escape", "F1"):
        terminal = ScriptedTerminal()
        fn(Command(name, 0.1), make_context(terminal=terminal))
        sent = [key for keys, _ in terminal.sent for key in keys]
        require(sent == [Key(name)], f"{name!r} was sent as {sent}")


def case_waits_within_bounds(fn: Route, make_context: ContextFactory) -> None:
    """The command's duration is waited, never less than nothing nor more than Limits.max_wait."""
    limits = Limits(max_wait=20.0)
    for given, wanted in ((0.5, 0.5), (3.0, 3.0), (20.0, 20.0), (1e9, 20.0), (math.inf, 20.0), (-5.0, 0.0)):
        waited = _waited(fn, make_context, Command("sleep 1\n", given), limits)
        require(waited == wanted, f"a duration of {given} waits {waited} seconds, not {wanted}")
    waited = _waited(fn, make_context, Command("sleep 1\n", math.nan), limits)
    require(0.0 <= waited <= 20.0, f"a duration of NaN waits {waited} seconds")


def case_only_waits_for_empty_keystrokes(fn: Route, make_context: ContextFactory) -> None:
    """Empty keystrokes type nothing and wait their time: this is how the agent polls."""
    terminal = ScriptedTerminal()
    fn(Command("", 7.0), make_context(terminal=terminal))
    require(not any(keys for keys, _ in terminal.sent), f"typed {terminal.sent}")
    require(sum(wait for _, wait in terminal.sent) == 7.0, f"waited {[wait for _, wait in terminal.sent]}")


def case_answers_for_its_command(fn: Route, make_context: ContextFactory) -> None:
    """The answer is a `Routed` that carries the command it was given."""
    command = Command("pwd\n", 0.1)
    routed = checked(fn(command, make_context()), Routed)
    require(routed.command == command, f"answered for {routed.command}")


def case_survives_odd_keystrokes(fn: Route, make_context: ContextFactory) -> None:
    """Control characters, NUL and floods of them neither raise nor exceed what the engine takes in one request."""
    for text in ("\x03", "\0", "a\x1b[Ab", "\x7f" * 20_000, "\r\n" * 5_000, "x\0" * 20_000):
        terminal = ScriptedTerminal()
        fn(Command(text, 0.1), make_context(terminal=terminal))
        most = max((len(keys) for keys, _ in terminal.sent), default=0)
        require(most <= 10_000, f"{most} keys in one request")


def case_a_refusal_is_reported(fn: Route, make_context: ContextFactory) -> None:
    """What the engine refuses is the command's error, not the end of the run; `Stopped` is the end of the run."""
    routed = fn(Command("ls\n"), make_context(terminal=_Refusing(EngineRefusal("no such key"))))
    require("no such key" in routed.error, f"the refusal is not in the error: {routed.error!r}")
    try:
        fn(Command("ls\n"), make_context(terminal=_Refusing(Stopped("out of time"))))
    except Stopped:
        return
    require(False, "`Stopped` was swallowed")


def case_helpers_get_their_bytes(fn: Route, make_context: ContextFactory) -> None:
    """A dispatching route hands head and body over unchanged, types nothing, and returns the helper's answer."""
    if not _dispatches(fn):
        return
    code = "\tif x:\n\t\tpass\n\n'q' \"r\" \\n $HOME\n"
    for head, body in (("a b", ""), ("", "x"), ("/app/f.py", code), ("h", "\n\n")):
        terminal = ScriptedTerminal()
        ctx = make_context(_probe, terminal=terminal)
        keystrokes = f"_probe {head}".rstrip() + "\n" + body
        routed = fn(Command(keystrokes, 0.1), ctx)
        require(routed.helper == "_probe", f"{keystrokes[:40]!r} was not given to the helper but to {routed.helper!r}")
        require(routed.output == f"{head!r}|{body!r}", f"the helper got {routed.output[:80]}, not {head!r}|{body!r}")
        require(terminal.typed == "", f"also typed {terminal.typed[:40]!r}")


def case_helpers_are_called_by_first_word_only(fn: Route, make_context: ContextFactory) -> None:
    """A helper's name inside other text, or as part of a word, is text."""
    if not _dispatches(fn):
        return
    for text in ("echo _probe x\n", "_probes x\n", "./_probe x\n", "cat <<EOF\n_probe x\nEOF\n"):
        terminal = ScriptedTerminal()
        routed = fn(Command(text, 0.1), make_context(_probe, terminal=terminal))
        require(not routed.helper and terminal.typed == text, f"{text!r} was given to a helper")


def case_a_helper_that_fails_is_reported(fn: Route, make_context: ContextFactory) -> None:
    """A helper's refusal is the command's error."""
    if not _dispatches(fn):
        return
    routed = fn(Command("_broken x\n", 0.1), make_context(_broken))
    require("nothing there" in routed.error + routed.output, f"the refusal got lost: {routed}")


@function(module="tools", point="command", describes="answers with what it got", usage="_probe HEAD\nBODY")
def _probe(call: CommandCall, ctx: Context) -> str:
    return f"{call.head!r}|{call.body!r}"


@function(module="tools", point="command", describes="is refused by the engine", usage="_broken")
def _broken(call: CommandCall, ctx: Context) -> str:
    raise EngineRefusal("nothing there")


class _Refusing(ScriptedTerminal):
    def __init__(self, error: EngineRefusal) -> None:
        super().__init__()
        self._error = error

    def send(self, keys: Sequence[str | Key], wait: float = 0.0) -> bool:
        raise self._error


def _dispatches(fn: Route) -> bool:
    tag: object = getattr(fn, TAG_ATTRIBUTE, None)
    return isinstance(tag, Tag) and tag.dispatches_commands


def _waited(fn: Route, make_context: ContextFactory, command: Command, limits: Limits) -> float:
    terminal = ScriptedTerminal()
    fn(command, make_context(terminal=terminal, limits=limits))
    return sum(wait for _, wait in terminal.sent)
