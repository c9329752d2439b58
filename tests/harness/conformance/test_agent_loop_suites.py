"""The seed conforms, and each kind of broken candidate is refused by the case that is about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.conformance import failures

from harness.context import Context
from harness.errors import EngineRefusal
from harness.modules.agent_loop.drive.terminus import terminus
from harness.modules.agent_loop.guard.reply_warnings import reply_warnings
from harness.modules.agent_loop.recover.ask_again import ask_again
from harness.registry import function
from harness.types import Ending, Fault, Guidance, Recovery, Turn

Broken = list[tuple[Callable[..., Any], str]]


def drive(fn: Callable[..., Any]) -> Callable[..., Any]:
    return function(module="agent_loop", point="drive", describes="broken")(fn)


def guard(fn: Callable[..., Any]) -> Callable[..., Any]:
    return function(module="agent_loop", point="guard", describes="broken")(fn)


def recover(fn: Callable[..., Any]) -> Callable[..., Any]:
    return function(module="agent_loop", point="recover", describes="broken")(fn)


@pytest.mark.parametrize("seed", [terminus, reply_warnings, ask_again])
def test_the_seed_conforms(seed: Callable[..., Any]) -> None:
    assert failures(seed) == {}


# ---------------------------------------------------------------------------------------------------------------- drive


def loop(ctx: Context, on_fault: Callable[[Fault], str | Turn], endless: bool = False) -> Ending:
    """A loop with a hole for what it does wrong."""
    prompt = ctx.run.first_prompt()
    while endless or ctx.state.number < ctx.limits.max_turns:
        turn = ctx.run.ask(prompt)
        if isinstance(turn, Fault):
            answer = on_fault(turn)
            if isinstance(answer, str):
                prompt = answer
                continue
            turn = answer
        turn = ctx.run.observe(ctx.run.execute(turn))
        decision = ctx.run.decide(turn)
        if decision.stop:
            return Ending("complete")
        prompt = turn.observation + decision.prompt
    return Ending("max_turns")


@drive
def counts_no_turns(ctx: Context) -> Ending:
    return loop(ctx, lambda fault: "again", endless=True)


@drive
def types_unreadable_replies(ctx: Context) -> Ending:
    def act(fault: Fault) -> str:
        ctx.terminal.send([fault.text])
        return "again"

    return loop(ctx, act)


@drive
def salvages_without_end(ctx: Context) -> Ending:
    def salvage(fault: Fault) -> Turn:
        turn: Turn | Fault = fault
        while isinstance(turn, Fault):
            turn = ctx.run.use_reply(turn.prompt, ctx.run.recover(turn).reply)
        return turn

    return loop(ctx, salvage)


@drive
def knows_no_guards(ctx: Context) -> Ending:
    return loop(ctx, lambda fault: ctx.run.recover(fault).prompt)


@drive
def believes_every_claim(ctx: Context) -> Ending:
    prompt = ctx.run.first_prompt()
    while ctx.state.number < ctx.limits.max_turns:
        turn = ctx.run.ask(prompt)
        if isinstance(turn, Fault):
            prompt = ctx.run.recover(turn).prompt or turn.prompt
            continue
        prompt = ctx.run.observe(ctx.run.execute(turn)).observation
        if turn.reply.complete:
            return Ending("complete")
    return Ending("max_turns")


@drive
def asks_a_closed_engine(ctx: Context) -> Ending:
    prompt = ctx.run.first_prompt()
    while ctx.state.number < ctx.limits.max_turns:
        try:
            turn = ctx.run.ask(prompt)
        except EngineRefusal:
            continue
        if isinstance(turn, Turn):
            prompt = ctx.run.observe(ctx.run.execute(turn)).observation
    return Ending("max_turns")


DRIVES: Broken = [
    (counts_no_turns, "ends_at_max_turns"),
    (types_unreadable_replies, "never_acts_on_an_unreadable_reply"),
    (salvages_without_end, "ends_when_salvage_never_helps"),
    (knows_no_guards, "heeds_the_guards"),
    (knows_no_guards, "reopened_claims_do_not_count"),
    (knows_no_guards, "ends_when_recover_says_so"),
    (believes_every_claim, "goes_on_without_a_decision"),
    (believes_every_claim, "decides_on_observed_turns_only"),
    (asks_a_closed_engine, "ends_when_the_engine_stops"),
]

# ---------------------------------------------------------------------------------------------------------------- guard


@guard
def holds_everything(turn: Turn, ctx: Context) -> Guidance:
    return Guidance(hold=tuple(range(len(turn.reply.commands))))


@guard
def holds_what_is_not_there(turn: Turn, ctx: Context) -> Guidance:
    return Guidance(hold=(len(turn.reply.commands),) if turn.stage == "proposed" else ())


@guard
def never_lets_go(turn: Turn, ctx: Context) -> Guidance:
    return Guidance(reopen=("prove it",) if turn.reply.complete else ())


@guard
def looks_with_its_hands(turn: Turn, ctx: Context) -> Guidance:
    ctx.terminal.send(["git status\n"])
    return Guidance()


@guard
def repeats_the_screen(turn: Turn, ctx: Context) -> Guidance:
    return Guidance(feedback=turn.observation)


@guard
def forgets_to_answer(turn: Turn, ctx: Context) -> Any:
    return None


GUARDS: Broken = [
    (holds_everything, "lets_plain_work_through"),
    (holds_everything, "holds_before_they_run_only"),
    (holds_what_is_not_there, "answers_for_any_turn"),
    (never_lets_go, "lets_an_honest_run_end"),
    (looks_with_its_hands, "only_looks"),
    (repeats_the_screen, "answers_for_any_turn"),
    (forgets_to_answer, "answers_for_any_turn"),
]

# -------------------------------------------------------------------------------------------------------------- recover


@recover
def repeats_the_question(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(prompt=fault.prompt)


@recover
def asks_for_ever(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(prompt=f"{fault.message}. Send a proper {ctx.run.grammar().noun}.")


@recover
def gives_up_at_once(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(stop="unreadable")


@recover
def says_two_things(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(prompt="again", stop="enough" if fault.streak > 3 else "")


@recover
def quotes_the_reply(fault: Fault, ctx: Context) -> Recovery:
    if fault.streak > 9:
        return Recovery(stop="faults")
    return Recovery(prompt=f"This {ctx.run.grammar().noun} was not readable:\n{fault.text}")


@recover
def makes_up_a_reply(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(reply='{"commands": [{"keystrokes": "rm -r build\\n"}]}')


@recover
def finishes_the_reply(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(reply=fault.text + '"}')


RECOVERIES: Broken = [
    (repeats_the_question, "says_what_was_wrong"),
    (repeats_the_question, "comes_to_an_end"),
    (asks_for_ever, "comes_to_an_end"),
    (gives_up_at_once, "asks_again_at_first"),
    (says_two_things, "gives_one_answer"),
    (quotes_the_reply, "does_not_echo_without_end"),
    (makes_up_a_reply, "invents_nothing"),
    (finishes_the_reply, "invents_nothing"),
]


@pytest.mark.parametrize(("broken", "case"), [*DRIVES, *GUARDS, *RECOVERIES])
def test_broken_candidates_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)
