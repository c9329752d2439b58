"""What every `agent_loop/guard` keeps: it looks and advises, within bounds, and lets an honest run end."""

from __future__ import annotations

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import checked, enter, odd_turns, remembered, turn, typed
from harness.points import Guard
from harness.scripted import ScriptedContext
from harness.types import Guidance, Limits, Turn

MOST_FEEDBACK = 20_000
INSISTENCE = 20


def case_answers_for_any_turn(fn: Guard, make_context: ContextFactory) -> None:
    """Both stages of odd turns get a well-formed `Guidance`; feedback is bounded, held indexes exist."""
    for odd in odd_turns():
        guidance = _guide(fn, odd, make_context())
        require(len(guidance.feedback) <= MOST_FEEDBACK, f"{len(guidance.feedback)} characters of feedback")
        bad = [index for index in guidance.hold if index not in range(len(odd.reply.commands))]
        require(not bad, f"holds commands that are not there: {bad}")


def case_holds_before_they_run_only(fn: Guard, make_context: ContextFactory) -> None:
    """What has run cannot be held: stage "observed" holds nothing."""
    for odd in odd_turns():
        if odd.stage == "observed":
            require(not _guide(fn, odd, make_context()).hold, "holds commands that have run")


def case_lets_plain_work_through(fn: Guard, make_context: ContextFactory) -> None:
    """Plain first commands are not held, and a turn that claims nothing reopens nothing."""
    for keys in ("ls -la\n", "cat notes.txt\n", "mkdir -p build\n"):
        guidance = _guide(fn, turn(keys, observed=False), make_context())
        require(not guidance.hold, f"held {keys!r}")
        require(not guidance.reopen, "reopened requirements though nothing was claimed")


def case_lets_an_honest_run_end(fn: Guard, make_context: ContextFactory) -> None:
    """A guard can be wrong: an agent that works on and claims again is believed in the end."""
    ctx = make_context(limits=Limits())
    let_through = False
    for number in range(1, 2 * INSISTENCE, 2):
        look = turn("cat /app/hello.txt\n", number=number, observation="$ cat /app/hello.txt\nhello\n$ ")
        claim = turn(number=number + 1, complete=True)
        for step in (look, claim):
            early = _guide(fn, _proposed(step), ctx)
            late = _guide(fn, enter(ctx, step), ctx)
            let_through = let_through or (step.reply.complete and not early.reopen and not late.reopen)
    require(let_through, f"reopened each of {INSISTENCE} claims; no run could end")


def case_only_looks(fn: Guard, make_context: ContextFactory) -> None:
    """A guard types nothing and leaves the state alone."""
    for odd in odd_turns():
        ctx = make_context()
        before = remembered(ctx)
        _guide(fn, odd, ctx)
        require(not typed(ctx), "typed into the terminal")
        require(remembered(ctx) == before, "changed the state")


def _guide(fn: Guard, step: Turn, ctx: ScriptedContext) -> Guidance:
    return checked(fn(step, ctx), Guidance)


def _proposed(step: Turn) -> Turn:
    return turn(
        *(c.keystrokes for c in step.reply.commands), complete=step.reply.complete, number=step.number, observed=False
    )
