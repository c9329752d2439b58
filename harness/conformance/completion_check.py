"""What every `completion/check` keeps: advice with a reason, no stop unasked, and no veto for ever."""

from __future__ import annotations

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import checked, enter, odd_turns, remembered, turn, typed
from harness.points import Check
from harness.scripted import ScriptedContext
from harness.types import Advice, Task, Turn

MOST_REASON = 4_000
INSISTENCE = 20


def case_gives_a_reason(fn: Check, make_context: ContextFactory) -> None:
    """Any turn gets an `Advice`; an opinion has a reason, and the reason is bounded."""
    for task in (Task(""), Task("Fix it."), Task("Do this.\n" * 10_000)):
        for step in _observed():
            advice = _check(fn, step, make_context(task=task))
            require(advice.stop in (True, False, None), f"stop is {advice.stop!r}")
            require(advice.stop is None or bool(advice.reason.strip()), f"stop={advice.stop} without a reason")
            require(len(advice.reason) <= MOST_REASON, f"a reason of {len(advice.reason)} characters")


def case_does_not_stop_unasked(fn: Check, make_context: ContextFactory) -> None:
    """A turn that claims nothing is no reason to stop, least of all the first one."""
    for step in (turn(), turn("ls\n"), turn("echo done\n", observation="$ echo done\ndone\n$ ")):
        require(_check(fn, step, make_context()).stop is not True, "advised to stop though nothing was claimed")


def case_lets_an_honest_run_end(fn: Check, make_context: ContextFactory) -> None:
    """A check can be wrong: an agent that looks at its work and claims, again and again, meets no objection once."""
    ctx = make_context()
    number = 0
    for _ in range(INSISTENCE):
        look = turn("cat /app/hello.txt\n", number=number + 1, observation="$ cat /app/hello.txt\nhello\n$ ")
        for step in (look, turn(number=number + 2, complete=True), turn(number=number + 3, complete=True)):
            advice = _check(fn, step, ctx)
            ctx.state.pending_completion = step.reply.complete
            if step.reply.complete and advice.stop is not False:
                return
        number += 3
    require(False, f"objected to each of {2 * INSISTENCE} claims; no run could end")


def case_only_looks(fn: Check, make_context: ContextFactory) -> None:
    """A check types nothing, leaves the state alone, and says the same when asked again about the same turn."""
    for step in _observed():
        ctx = make_context()
        enter(ctx, step)
        before = remembered(ctx)
        first, again = checked(fn(step, ctx), Advice), checked(fn(step, ctx), Advice)
        require(remembered(ctx) == before, "changed the state")
        require(not typed(ctx), "typed into the terminal")
        require(again == first, f"said {first.stop}, then {again.stop} about the same turn")


def _observed() -> list[Turn]:
    return [step for step in odd_turns() if step.stage == "observed"]


def _check(fn: Check, step: Turn, ctx: ScriptedContext) -> Advice:
    """The advice on a turn that has just entered the state."""
    return checked(fn(enter(ctx, step), ctx), Advice)
