"""What every `completion/decide` keeps: it follows unanimous advice, never stops on none, and says why it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import checked, enter, odd_turns, remembered, turn, typed
from harness.points import Decide
from harness.scripted import ScriptedContext
from harness.types import Advice, Decision, Turn

MOST_TEXT = 20_000


def case_answers_any_advice(fn: Decide, make_context: ContextFactory) -> None:
    """Any mixture of advice on any turn is folded into a bounded `Decision`."""
    mixtures = [[Advice(stop) for stop in stops] for stops in product((True, False, None), repeat=3)]
    for step in odd_turns():
        if step.stage == "observed":
            for advice in ([], *mixtures, [Advice(False, "r" * 10_000)] * 50):
                decision = _decide(fn, step, advice, make_context())
                size = len(decision.reason) + len(decision.prompt)
                require(size <= MOST_TEXT, f"{size} characters of reason and prompt")


def case_follows_unanimous_advice(fn: Decide, make_context: ContextFactory) -> None:
    """All checks say stop to a claim: stop. All object: go on."""
    claim = turn(complete=True)
    for size in (1, 2, 5):
        yes = _decide(fn, claim, [Advice(True, "done")] * size, make_context())
        no = _decide(fn, claim, [Advice(False, "not done")] * size, make_context())
        require(yes.stop, f"goes on though all {size} checks say stop")
        require(not no.stop, f"stops though all {size} checks object")


def case_needs_a_reason_to_stop(fn: Decide, make_context: ContextFactory) -> None:
    """Without any opinion, a turn that claims nothing does not end the run."""
    for advice in ([], [Advice(None)], [Advice(None), Advice(None, "cannot tell")]):
        decision = _decide(fn, turn("ls\n"), advice, make_context())
        require(not decision.stop, f"stopped on {advice}")


def case_keeps_the_reasons(fn: Decide, make_context: ContextFactory) -> None:
    """The reason of a unanimous recommendation is that of its checks."""
    for stop in (True, False):
        advice = [Advice(stop, "REASON-ONE"), Advice(stop, "REASON-TWO")]
        reason = _decide(fn, turn(complete=True), advice, make_context()).reason
        require("REASON-ONE" in reason or "REASON-TWO" in reason, f"lost the reasons: {reason!r}")


def case_tells_a_refused_agent(fn: Decide, make_context: ContextFactory) -> None:
    """An agent whose claim is not accepted is told something; one whose claim is accepted is told nothing."""
    refused = _decide(fn, turn(complete=True), [Advice(False, "not done")], make_context())
    require(bool(refused.prompt.strip()), "the agent claimed completion, and is not told that it goes on")
    accepted = _decide(fn, turn(complete=True), [Advice(True, "done")], make_context())
    require(not accepted.prompt, "a prompt for an agent that is never asked again")


def case_only_advises(fn: Decide, make_context: ContextFactory) -> None:
    """It types nothing and leaves the state alone: the kernel keeps track of pending claims."""
    for complete in (False, True):
        for advice in ([], [Advice(True, "done")], [Advice(False, "no")]):
            ctx = make_context()
            step = enter(ctx, turn(complete=complete))
            before = remembered(ctx)
            fn(step, advice, ctx)
            require(not typed(ctx), "typed into the terminal")
            require(remembered(ctx) == before, "changed the state")


def _decide(fn: Decide, step: Turn, advice: Sequence[Advice], ctx: ScriptedContext) -> Decision:
    return checked(fn(enter(ctx, step), advice, ctx), Decision)
