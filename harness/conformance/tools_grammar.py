"""What every `tools/grammar` keeps, whatever its format: it can read what it teaches, and survives what it does not.

A suite cannot know the format, so the grammar's own prompt supplies the replies: **the prompt must show at least one
whole example reply with a command, and the prompt or `confirm` at least one that declares the task complete.** An
example is the whole prompt, one fenced block (with or without its fences), or some neighbouring paragraphs, such that
`parse` reads it without an error. The cases then change these examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.conformance.base import ContextFactory, require
from harness.conformance.odd_text import ODD, encodable
from harness.conformance.scenes import checked
from harness.points import GrammarPoint
from harness.types import Command, Grammar, Limits, Reply

_FENCED = re.compile(r"^(```|~~~)[^\n]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_MOST_PARAGRAPHS = 8
_MOST_PREFIXES = 120
_ODD_NUMBERS = ("30.0", "-5", "NaN", "-Infinity", "1e999", "9" * 400, "-" + "9" * 399, "9" * 5_000, "null", '"3"', "")
_WORD = re.compile(r"[A-Za-z0-9_./-]+(?: [A-Za-z0-9_./-]+)*")


def case_prompt_shows_a_reply_it_can_read(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Some example of the prompt parses without error into at least one command with keystrokes."""
    _example(fn(make_context()))


def case_prompt_shows_how_to_finish(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Some example of the prompt or of `confirm` parses as a declaration that the task is complete."""
    grammar = fn(make_context())
    shown = any(_read(grammar, text).complete for text in _examples(f"{grammar.prompt}\n\n{grammar.confirm}"))
    require(shown, "no example in the prompt or in `confirm` parses as complete")


def case_working_is_not_finishing(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """There is an example with commands that is not complete: the agent can act without ending the run."""
    grammar = fn(make_context())
    replies = [_read(grammar, text) for text in _examples(grammar.prompt)]
    working = any(reply.commands and not reply.complete and not reply.error for reply in replies)
    require(working, "every example with commands also declares the task complete")


def case_texts_are_filled_in(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Prompt, confirm, name and noun say something, and hold no placeholder: the kernel adds the task itself."""
    grammar = fn(make_context())
    for field in ("name", "prompt", "confirm", "noun"):
        require(bool(getattr(grammar, field).strip()), f"`{field}` is blank")
    for placeholder in ("{instruction}", "{terminal_state}", "{task}"):
        require(placeholder not in grammar.prompt + grammar.confirm, f"the prompt holds the placeholder {placeholder}")


def case_reads_the_keystrokes_that_are_there(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Another command in the example's place comes out as that command: nothing is hard-coded."""
    grammar = fn(make_context())
    text, command = _example(grammar)
    word = _WORD.search(command.keystrokes)
    require(word is not None, f"the example's first command is {command.keystrokes!r}; show one in plain words")
    old = word[0] if word else ""
    reply = _read(grammar, text.replace(old, "touch marker-4711"))
    typed = "".join(found.keystrokes for found in reply.commands)
    require(not reply.error, f"the example with another command is an error: {reply.error}")
    require("touch marker-4711" in typed, f"`touch marker-4711` in place of {old!r} came out as {typed[:80]!r}")


def case_silence_is_an_error(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """An empty reply runs nothing, completes nothing, and is an error the agent can be told."""
    for text in ("", " \n\t "):
        reply = _read(fn(make_context()), text)
        require(bool(reply.error), f"{text!r} is taken as a proper reply")


def case_never_raises(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Any text, alone, before, after and inside an example, is read or refused: sound replies, nothing raised."""
    grammar = fn(make_context())
    text, command = _example(grammar)
    for name, odd in ODD.items():
        inside = text.replace(command.keystrokes.strip() or "\n", odd, 1)
        for given in (odd, odd + text, text + odd, inside, text[: len(text) // 2] + odd):
            _read(grammar, given, f"with {name}")


def case_reads_any_beginning(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """A reply may be cut anywhere: every beginning of an example is read or refused."""
    grammar = fn(make_context())
    text, _ = _example(grammar)
    for length in range(0, len(text), max(1, len(text) // _MOST_PREFIXES)):
        _read(grammar, text[:length], f"cut at {length}")


def case_durations_are_bounded(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """Whatever stands in place of a number, durations are finite and within [0, Limits.max_wait]."""
    for limit in (60.0, 5.0):
        grammar = fn(make_context(limits=Limits(max_wait=limit)))
        text, _ = _example(grammar)
        for odd in _ODD_NUMBERS:
            given = re.sub(r"\d+(?:\.\d+)?", odd, text)
            _read(grammar, given, f"with {odd[:12]!r} for numbers", limit)


def case_salvage_is_readable(fn: GrammarPoint, make_context: ContextFactory) -> None:
    """`salvage`, where there is one, never raises, and what it returns parses without error."""
    grammar = fn(make_context())
    if grammar.salvage is None:
        return
    text, _ = _example(grammar)
    for given in (*ODD.values(), text, text + text, *(text[:cut] for cut in range(0, len(text), 40))):
        saved = grammar.salvage(given)
        if saved is not None:
            require(not _read(grammar, saved).error, f"salvaged a text that is an error: {saved[:80]!r}")


def _examples(prompt: str) -> Iterator[str]:
    """Texts of the prompt that may be whole replies, the likeliest first."""
    for match in _FENCED.finditer(prompt):
        yield from (match[0], match[2])
    paragraphs = re.split(r"\n[ \t]*\n", prompt)
    for size in range(1, _MOST_PARAGRAPHS + 1):
        for start in range(len(paragraphs) - size + 1):
            yield "\n\n".join(paragraphs[start : start + size])
    yield prompt


def _example(grammar: Grammar) -> tuple[str, Command]:
    """(reply, its first command with keystrokes) for the first example that can be read."""
    for text in _examples(grammar.prompt):
        reply = _read(grammar, text)
        typed = [command for command in reply.commands if command.keystrokes.strip()]
        if typed and not reply.error:
            return text, typed[0]
    require(False, "no example in the prompt can be read by `parse`: show one whole reply, as its own paragraphs")
    raise AssertionError


def _read(grammar: Grammar, text: str, what: str = "", limit: float = 60.0) -> Reply:
    """Parse and check what holds for every reply."""
    reply = checked(grammar.parse(text), Reply)
    require(not (reply.error and reply.commands), f"an error comes with commands {what}")
    require(not (reply.error and reply.complete), f"an error comes with a declared completion {what}")
    for command in reply.commands:
        require(0.0 <= command.duration <= limit, f"a duration of {command.duration} {what}")
        require(encodable(command.keystrokes), f"keystrokes with a lone surrogate {what}")
    told = (reply.error, *reply.warnings, reply.analysis, reply.plan)
    require(all(map(encodable, told)), f"texts with a lone surrogate {what}")
    require(len("".join(told)) <= 2 * len(text) + 20_000, f"more is said about a reply than it holds {what}")
    return reply
