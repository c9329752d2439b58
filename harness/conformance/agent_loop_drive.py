"""What every `agent_loop/drive` keeps: it ends, runs what was replied and nothing else, and stops when told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import ENDLESS, UNREADABLE, reply, turns_asked, typed
from harness.context import Context
from harness.errors import ReplyTruncated
from harness.points import Drive
from harness.registry import function
from harness.scripted import ScriptedModel
from harness.types import Advice, Decision, Fault, Guidance, Limits, Recovery, Turn

_FAILED = ("function_error", "stopped")


def case_ends_at_max_turns(fn: Drive, make_context: ContextFactory) -> None:
    """An agent that never completes is asked exactly `max_turns` times, and then the run just ends."""
    model = ScriptedModel([reply(f"echo {number}\n") for number in range(20)])
    ending = make_context(model=model, limits=Limits(max_turns=5)).drive()
    require(turns_asked(model) == 5, f"{turns_asked(model)} turns were asked for; 5 are allowed")
    require(ending.reason not in (*_FAILED, "complete"), f"it ended with {ending}")


def case_runs_the_commands(fn: Drive, make_context: ContextFactory) -> None:
    """All commands of all readable replies are typed, in order, each once."""
    ctx = make_context(_never, model=[reply("one\n", "two\n"), reply("three\n")], limits=Limits(max_turns=2))
    ctx.drive()
    require(typed(ctx) == "one\ntwo\nthree\n", f"typed {typed(ctx)!r}")


def case_shows_what_happened(fn: Drive, make_context: ContextFactory) -> None:
    """What a command printed is in the next request."""
    model = ScriptedModel([reply("make\n"), reply("ls\n")])
    make_context(_never, model=model, terminal=["OUTPUT-OF-MAKE\n$ "], limits=Limits(max_turns=2)).drive()
    require("OUTPUT-OF-MAKE" in _last_message(model, 1), "the agent was not shown the output of its command")


def case_first_request_names_the_task(fn: Drive, make_context: ContextFactory) -> None:
    """The first request holds the instruction and the reply format."""
    model = ScriptedModel([reply()])
    ctx = make_context(_never, model=model, limits=Limits(max_turns=1))
    ctx.drive()
    first = _last_message(model, 0)
    require(ctx.task.instruction in first, "the instruction is missing")
    require(ctx.run.grammar().prompt in first, "the reply format is missing")


def case_never_acts_on_an_unreadable_reply(fn: Drive, make_context: ContextFactory) -> None:
    """Of replies that cannot be read, or were cut off, nothing is typed; the run goes on after them."""
    cut = ReplyTruncated("cut off", '{"commands": [{"keystrokes": "echo DANGER\\n"}, {"keystr')
    recover = _always(Recovery(prompt="Once more."))
    ctx = make_context(recover, _never, model=[UNREADABLE, cut, reply("safe\n")], limits=Limits(max_turns=3))
    ctx.drive()
    require(typed(ctx) == "safe\n", f"typed {typed(ctx)!r}, expected only the readable reply's command")


def case_asks_with_the_prompt_of_recover(fn: Drive, make_context: ContextFactory) -> None:
    """After a fault the agent reads what `recover` wrote."""
    model = ScriptedModel([UNREADABLE, reply("ls\n")])
    make_context(_always(Recovery(prompt="PLEASE-ONCE-MORE")), _never, model=model, limits=Limits(max_turns=2)).drive()
    require("PLEASE-ONCE-MORE" in _last_message(model, 1), "the prompt of `recover` was not sent")


def case_uses_the_reply_of_recover(fn: Drive, make_context: ContextFactory) -> None:
    """A reply that `recover` puts in place of the faulty one is acted on."""
    recover = _always(Recovery(reply=reply("salvaged\n")))
    ctx = make_context(recover, _never, model=[UNREADABLE, reply("next\n")], limits=Limits(max_turns=2))
    ctx.drive()
    require(typed(ctx) == "salvaged\nnext\n", f"typed {typed(ctx)!r}")


def case_ends_when_recover_says_so(fn: Drive, make_context: ContextFactory) -> None:
    """`Recovery.stop` ends the run: nothing more is asked."""
    model = ScriptedModel([UNREADABLE], then=reply("ls\n"))
    ending = make_context(_always(Recovery(stop="hopeless")), _never, model=model, limits=Limits(max_turns=9)).drive()
    require(turns_asked(model) == 1, f"{turns_asked(model)} turns were asked for, expected an end after the first")
    require(ending.reason not in (*_FAILED, "complete", "max_turns"), f"it ended with {ending}")


def case_ends_when_salvage_never_helps(fn: Drive, make_context: ContextFactory) -> None:
    """A `recover` that always offers another unreadable reply does not hold the run."""
    recover = _always(Recovery(reply=UNREADABLE))
    model = ScriptedModel(then=UNREADABLE)
    ending = make_context(recover, _never, model=model, limits=Limits(max_turns=4)).drive()
    require(ending.reason not in _FAILED, f"it ended with {ending}")


def case_stops_on_the_decision(fn: Drive, make_context: ContextFactory) -> None:
    """When `decide` says stop, the commands of that turn have run and nothing more is asked."""
    model = ScriptedModel([reply("one\n"), reply("last\n", complete=True)], then=reply("late\n"))
    ctx = make_context(_stop_when_claimed, model=model, limits=Limits(max_turns=9))
    ending = ctx.drive()
    require(typed(ctx) == "one\nlast\n", f"typed {typed(ctx)!r}")
    require(ending.reason == "complete", f"it ended with {ending}, expected 'complete'")


def case_goes_on_without_a_decision(fn: Drive, make_context: ContextFactory) -> None:
    """The agent's word alone does not stop the run."""
    model = ScriptedModel(then=reply(complete=True))
    ending = make_context(_never, model=model, limits=Limits(max_turns=4)).drive()
    require(turns_asked(model) == 4, f"it ended after {turns_asked(model)} turns with {ending}")


def case_passes_on_the_question(fn: Drive, make_context: ContextFactory) -> None:
    """`Decision.prompt` is in the next request."""
    model = ScriptedModel([reply(complete=True), reply("ls\n")])
    make_context(_never, model=model, limits=Limits(max_turns=2)).drive()
    require("ARE-YOU-SURE" in _last_message(model, 1), "the agent did not read the prompt of `decide`")


def case_decides_on_observed_turns_only(fn: Drive, make_context: ContextFactory) -> None:
    """`decide` sees every turn once, after its commands ran; a fault leaves a pending completion as it is."""
    seen: list[tuple[int, str]] = []

    @function(module="completion", point="decide", describes="twice in a row")
    def decide(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
        seen.append((turn.number, turn.stage))
        return Decision(turn.reply.complete and ctx.state.pending_completion, "twice")

    recover = _always(Recovery(prompt="Once more."))
    answers = [reply(complete=True), reply("ls\n"), reply(complete=True), UNREADABLE, reply(complete=True)]
    model = ScriptedModel(answers, then=reply())
    ending = make_context(recover, decide, model=model, limits=Limits(max_turns=9)).drive()
    expected = [(1, "observed"), (2, "observed"), (3, "observed"), (5, "observed")]
    require(seen == expected, f"`decide` saw {seen}, expected {expected}")
    require(ending.reason == "complete", f"it ended with {ending}")


def case_heeds_the_guards(fn: Drive, make_context: ContextFactory) -> None:
    """Feedback of both stages is in the next request, and a held command does not run."""

    @function(module="agent_loop", point="guard", describes="holds")
    def guard(turn: Turn, ctx: Context) -> Guidance:
        return Guidance(feedback=f"HEED-{turn.stage}", hold=(0,) if turn.stage == "proposed" else ())

    model = ScriptedModel([reply("held\n", "free\n"), reply()])
    ctx = make_context(guard, _never, model=model, limits=Limits(max_turns=2))
    ctx.drive()
    require(typed(ctx) == "free\n", f"typed {typed(ctx)!r}, though the first command was held")
    for stage in ("proposed", "observed"):
        require(f"HEED-{stage}" in _last_message(model, 1), f"feedback from the stage {stage!r} was lost")


def case_reopened_claims_do_not_count(fn: Drive, make_context: ContextFactory) -> None:
    """A completion claim that a guard reopened, at either stage, does not end the run; the agent reads what is open."""
    for stage in ("proposed", "observed"):
        model = ScriptedModel(then=reply(complete=True))
        ctx = make_context(_reopening(stage), _stop_when_claimed, model=model, limits=Limits(max_turns=5))
        ending = ctx.drive()
        asked = turns_asked(model)
        require(asked == 2, f"reopened when {stage}, it ended after {asked} turns with {ending}; expected 2")
        require("OPEN-REQUIREMENT" in _last_message(model, 1), "the agent was not told what is open")


def case_ends_when_the_engine_stops(fn: Drive, make_context: ContextFactory) -> None:
    """When the engine serves nothing more, the run ends without asking again."""
    model = ScriptedModel([reply("one\n")])
    ending = make_context(_never, model=model, limits=Limits(max_turns=50)).drive()
    require(len(model.requests) == 2, f"{len(model.requests)} requests, expected 2: the second is refused")
    require(ending.reason not in ("complete", "function_error"), f"it ended with {ending}")


@function(module="completion", point="decide", describes="never stops")
def _never(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(False, "not yet", "ARE-YOU-SURE" if turn.reply.complete else "")


@function(module="completion", point="decide", describes="believes the agent")
def _stop_when_claimed(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(turn.reply.complete, "claimed")


def _reopening(stage: str) -> Callable[[Turn, Context], Guidance]:
    """A guard that reopens a requirement at one stage of the first turn."""

    @function(module="agent_loop", point="guard", describes="reopens once")
    def guard(turn: Turn, ctx: Context) -> Guidance:
        return Guidance(reopen=("OPEN-REQUIREMENT",) if (turn.number, turn.stage) == (1, stage) else ())

    return guard


def _always(recovery: Recovery) -> Callable[[Fault, Context], Recovery]:
    """A `recover` that always answers the same, and fails once it is asked without end."""
    calls = 0

    @function(module="agent_loop", point="recover", describes="always the same")
    def recover(fault: Fault, ctx: Context) -> Recovery:
        nonlocal calls
        calls += 1
        if calls > ENDLESS:
            raise RecursionError("asked to recover without end")
        return recovery

    return recover


def _last_message(model: ScriptedModel, request: int) -> str:
    require(len(model.requests) > request, f"only {len(model.requests)} requests were made")
    return model.requests[request].messages[-1].content
