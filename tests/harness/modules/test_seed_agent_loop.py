"""The seed's `agent_loop`: what the agent reads, in which order, and when it ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.conformance.scenes import reply, turn
from harness.context import Context
from harness.errors import ContextOverflow, ModelUnavailable, ReplyTruncated
from harness.modules.agent_loop.drive.terminus import terminus
from harness.modules.agent_loop.guard.reply_warnings import reply_warnings
from harness.modules.agent_loop.recover.ask_again import MOST_IN_A_ROW, ask_again
from harness.modules.completion.check.declared_twice import declared_twice
from harness.modules.completion.decide.all_agree import all_agree
from harness.registry import function
from harness.scripted import ScriptedContext, ScriptedModel, make_context
from harness.standins import parse
from harness.types import Fault, Grammar, Guidance, Limits, Recovery, Reply, Turn


@function(module="tools", point="grammar", describes="plain, with warnings")
def warning_grammar(ctx: Context) -> Grammar:
    def read(text: str) -> Reply:
        found = parse(text.removeprefix("Sure! "))
        return dataclasses.replace(found, warnings=("text before the object",)) if text.startswith("Sure!") else found

    return Grammar("plain", "Reply in JSON.", read, "CONFIRM: say it once more.", noun="JSON response")


def run(*answers: Any, functions: tuple[Any, ...] = (), then: Any = None, **limits: Any) -> tuple[ScriptedContext, Any]:
    parts = (terminus, reply_warnings, ask_again, declared_twice, all_agree, warning_grammar, *functions)
    ctx = make_context(*parts, model=ScriptedModel(answers, then=then), limits=Limits(**limits))
    return ctx, ctx.drive()


def told(ctx: ScriptedContext) -> list[str]:
    assert isinstance(ctx.model, ScriptedModel)
    return [request.messages[-1].content for request in ctx.model.requests]


def test_warnings_come_before_the_observation() -> None:
    ctx, _ = run("Sure! " + reply("ls\n"), reply())
    warnings, observation = told(ctx)[1].split("\n\n", 1)
    assert "- text before the object" in warnings
    assert observation == ctx.state.turns[0].observation


def test_the_first_claim_is_questioned_and_its_warnings_are_dropped() -> None:
    ctx, ending = run("Sure! " + reply("ls\n", complete=True), reply("date\n", complete=True))
    question = told(ctx)[1]
    assert "text before the object" not in question
    assert question.startswith(f"The terminal now:\n{ctx.state.turns[0].observation}\n\n")
    assert question.index(ctx.state.turns[0].observation) < question.index("CONFIRM: say it once more.")
    assert (ending.reason, len(ctx.state.turns)) == ("complete", 2)
    assert "twice in a row" in ending.detail
    assert "date" in ctx.state.turns[-1].reply.raw  # the confirming reply's commands were executed too
    assert [routed.command.keystrokes for routed in ctx.state.turns[-1].routed] == ["date\n"]


def test_a_turn_without_the_claim_resets_it() -> None:
    ctx, ending = run(*(reply(complete=claim) for claim in (True, False, True, True)))
    assert (ending.reason, ctx.state.number) == ("complete", 4)


@pytest.mark.parametrize("fault", ["nonsense", ReplyTruncated("cut", '{"commands": [')])
def test_a_fault_between_two_claims_does_not(fault: Any) -> None:
    ctx, ending = run(reply(complete=True), fault, reply(complete=True))
    assert (ending.reason, ctx.state.number, len(ctx.state.turns)) == ("complete", 3, 2)


def test_max_turns_just_ends() -> None:
    ctx, ending = run(then=reply("ls\n"), max_turns=3)
    assert ending.reason == "max_turns"
    assert len(ctx.state.turns) == 3


def test_no_turn_at_all() -> None:
    ctx, ending = run(max_turns=0)
    assert ending.reason == "max_turns"
    assert told(ctx) == []


def test_an_unreadable_reply_is_named_and_stays_in_the_history() -> None:
    ctx, _ = run("nonsense", reply())
    assert "ERROR: not the plain format" in told(ctx)[1]
    assert "proper JSON response" in told(ctx)[1]
    assert "nonsense" in [message.content for message in ctx.state.history]


def test_a_truncated_reply_is_asked_for_in_pieces() -> None:
    ctx, _ = run(ReplyTruncated("cut", "Sure! {"), reply(), output_tokens=512)
    prompt = told(ctx)[1]
    for part in ("512 tokens", "NONE of its actions", "- text before the object", "smaller pieces"):
        assert part in prompt
    assert ctx.state.turns[0].number == 2


@pytest.mark.parametrize(
    ("failure", "reason", "asked"),
    [
        ("nonsense", "faults", MOST_IN_A_ROW),
        (ReplyTruncated("cut", "{"), "faults", MOST_IN_A_ROW),
        (ModelUnavailable("down"), "model_unavailable", 1),
        (ContextOverflow("too long"), "context_overflow", 3),
    ],
)
def test_nothing_is_retried_for_ever(failure: Any, reason: str, asked: int) -> None:
    ctx, ending = run(then=failure, max_turns=1_000)
    assert (ending.reason, ctx.state.number) == (reason, asked)


def test_readable_replies_between_faults_start_the_count_anew() -> None:
    answers = (["nonsense"] * (MOST_IN_A_ROW - 1) + [reply("ls\n")]) * 3
    ctx, ending = run(*answers, max_turns=len(answers))
    assert ending.reason == "max_turns"
    assert len(ctx.state.turns) == 3


def test_an_overflow_goes_on_with_a_short_prompt() -> None:
    refused = ContextOverflow("too long")
    ctx, _ = run(reply("cat big\n"), refused, refused, reply("ls\n"), max_turns=3)
    assert "too long for your context window" in told(ctx)[-1]
    assert len(ctx.state.turns) == 2


def test_without_summaries_an_overflow_ends_the_run() -> None:
    ctx, ending = run(reply("cat big\n"), then=ContextOverflow("too long"), summarize=False)
    assert (ending.reason, ctx.state.number) == ("context_overflow", 2)


def test_a_salvaged_reply_can_be_faulty_and_salvaged_again() -> None:
    @function(module="agent_loop", point="recover", describes="helps at the second attempt")
    def recover(fault: Fault, ctx: Context) -> Recovery:
        return Recovery(reply=reply("ls\n") if fault.streak == 2 else "still nonsense")

    ctx, _ = run("nonsense", functions=(recover,), max_turns=1)
    assert [turn.number for turn in ctx.state.turns] == [1]


def test_the_points_are_called_in_order() -> None:
    ctx, _ = run(reply("ls\n"), reply(complete=True), max_turns=1)
    points = [call["point"] for call in ctx.trace if call["turn"] == 1]
    # `reply_warnings` looks at both stages.
    expected = ["fit", "grammar", "guard", "route", "capture", "limit", "guard", "check", "decide"]
    assert [point for point in points if point in expected][: len(expected)] == expected


def test_reopened_requirements_are_listed_and_the_claim_does_not_count() -> None:
    @function(module="agent_loop", point="guard", describes="reopens the second claim")
    def reopen(turn: Turn, ctx: Context) -> Guidance:
        return Guidance(reopen=("tests pass",) if turn.number == 2 else ())

    ctx, ending = run(then=reply(complete=True), functions=(reopen,))
    assert "- tests pass" in told(ctx)[2]
    assert (ending.reason, ctx.state.number) == ("complete", 4)


def test_warnings_are_given_once() -> None:
    ctx = make_context()
    proposed = reply_warnings(turn("ls\n", observed=False, warnings=["odd"]), ctx)
    observed = reply_warnings(turn("ls\n", warnings=["odd"]), ctx)
    assert (proposed.feedback, "- odd" in observed.feedback) == ("", True)


def test_the_service_is_not_asked_again_when_it_is_down() -> None:
    recovery = ask_again(Fault("unavailable", "down", "prompt"), make_context())
    assert (recovery.stop, recovery.prompt, recovery.reply) == ("model_unavailable", "", "")
