"""What every `agent_loop/recover` keeps: one clear answer to a fault, nothing invented, and an end to it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import UNREADABLE, checked, remembered, turns_asked, typed
from harness.errors import ContextOverflow, ModelUnavailable, ReplyTruncated
from harness.points import Recover
from harness.scripted import Answer, ScriptedContext, ScriptedModel
from harness.types import Fault, Limits, Recovery, Reply

MOST_PROMPT = 10_000
MOST_FAULTS = 50
_ERROR = "the field that is called commands has to hold a list"


def case_gives_one_answer(fn: Recover, make_context: ContextFactory) -> None:
    """Exactly one of prompt, reply and stop is set, for each kind of fault, at any point of a streak."""
    for fault in _faults():
        recovery = _recover(fn, fault, make_context())
        given = [bool(recovery.prompt.strip()), bool(recovery.reply.strip()), bool(recovery.stop.strip())]
        require(given.count(True) == 1, f"{fault.kind}: prompt, reply, stop = {given}")


def case_asks_again_at_first(fn: Recover, make_context: ContextFactory) -> None:
    """One unreadable or truncated reply does not end a run."""
    for fault in _faults():
        if fault.kind in ("unreadable", "truncated") and fault.streak == 1:
            require(not _recover(fn, fault, make_context()).stop, f"stopped at the first {fault.kind} reply")


def case_says_what_was_wrong(fn: Recover, make_context: ContextFactory) -> None:
    """The new prompt names the error or the kind of reply that is wanted; it is not the old prompt again."""
    for fault in _faults():
        ctx = make_context()
        prompt = _recover(fn, fault, ctx).prompt
        if fault.kind != "unreadable" or not prompt:
            continue
        require(prompt.strip() != fault.prompt.strip(), "sent the same prompt again")
        hints = (_ERROR, ctx.run.grammar().noun, ctx.run.grammar().prompt)
        require(any(hint in prompt for hint in hints), f"says nothing of the error: {prompt[:80]!r}")


def case_does_not_echo_without_end(fn: Recover, make_context: ContextFactory) -> None:
    """A huge faulty reply does not come back as a huge prompt."""
    huge = "x" * 1_000_000
    for kind in ("unreadable", "truncated"):
        fault = Fault(kind, huge, "What now?", huge, Reply(error=huge, warnings=(huge,), raw=huge))
        prompt = _recover(fn, fault, make_context()).prompt
        require(len(prompt) <= MOST_PROMPT, f"{kind}: a prompt of {len(prompt)} characters")


def case_invents_nothing(fn: Recover, make_context: ContextFactory) -> None:
    """A reply put in place of the faulty one is readable, and its commands are the model's own words."""
    for fault in _faults():
        ctx = make_context()
        text = _recover(fn, fault, ctx).reply
        if not text:
            continue
        reply = ctx.run.grammar().parse(text)
        require(not reply.error, f"the salvaged reply is unreadable: {reply.error}")
        for command in reply.commands:
            require(command.keystrokes.strip() in fault.text, f"invented {command.keystrokes!r}")
        require(not reply.complete or "complete" in fault.text, "invented a completion claim")


def case_comes_to_an_end(fn: Recover, make_context: ContextFactory) -> None:
    """A model that only ever fails ends the run long before the turn limit."""
    failures: tuple[Answer, ...] = (
        UNREADABLE,
        "",
        ReplyTruncated("cut", '{"commands": ['),
        ModelUnavailable("down"),
        ContextOverflow("too long"),
    )
    for failure in failures:
        model = ScriptedModel(then=failure)
        ending = make_context(model=model, limits=Limits(max_turns=2 * MOST_FAULTS)).drive()
        asked = turns_asked(model)
        require(ending.reason != "function_error", f"{ending}")
        require(asked <= MOST_FAULTS, f"{asked} requests, all answered with {failure!r:.60}")


def case_only_advises(fn: Recover, make_context: ContextFactory) -> None:
    """Nothing is typed, and the state is left alone."""
    for fault in _faults():
        ctx = make_context()
        before = remembered(ctx)
        _recover(fn, fault, ctx)
        require(not typed(ctx), f"{fault.kind}: typed into the terminal")
        require(remembered(ctx) == before, f"{fault.kind}: changed the state")


def _faults() -> Iterator[Fault]:
    cut = '{"commands": [{"keystrokes": "echo one\\n"}, {"keystrokes": "echo tw'
    for streak in (1, 2, 5, 40):
        wrong = Reply(error=_ERROR, warnings=("text before the object",), raw=UNREADABLE)
        yield Fault("unreadable", _ERROR, "What now?", UNREADABLE, wrong, streak)
        yield Fault("unreadable", _ERROR, "What now?", "", Reply(error=_ERROR), streak)
        yield Fault("truncated", "output limit", "What now?", cut, None, streak)
        yield Fault("truncated", "output limit", "What now?", "", None, streak)
        yield Fault("overflow", "the prompt is too long", "What now?", "", None, streak)
        yield Fault("unavailable", "the service is down", "What now?", "", None, streak)


def _recover(fn: Recover, fault: Fault, ctx: ScriptedContext) -> Recovery:
    return checked(fn(fault, ctx), Recovery)
