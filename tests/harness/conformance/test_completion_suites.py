"""The seed conforms, and each kind of broken candidate is refused by the case that is about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.conformance import failures

from harness.context import Context
from harness.modules.completion.check.declared_twice import declared_twice
from harness.modules.completion.decide.all_agree import all_agree
from harness.registry import function
from harness.types import Advice, Decision, Turn

check = function(module="completion", point="check", describes="broken")
decide = function(module="completion", point="decide", describes="broken")


@check
def always_stops(turn: Turn, ctx: Context) -> Advice:
    return Advice(True, "why not")


@check
def never_stops(turn: Turn, ctx: Context) -> Advice:
    return Advice(False, "there is always more to do")


@check
def gives_no_reason(turn: Turn, ctx: Context) -> Advice:
    return Advice(turn.reply.complete)


@check
def keeps_its_own_count(turn: Turn, ctx: Context) -> Advice:
    ctx.state.pending_completion = turn.reply.complete
    return Advice(None)


@check
def counts_its_calls(turn: Turn, ctx: Context) -> Advice:
    ctx.memo["calls"] = ctx.memo.get("calls", 0) + 1
    return Advice(turn.reply.complete and ctx.memo["calls"] % 2 == 0, "every second time")


@check
def quotes_the_screen(turn: Turn, ctx: Context) -> Advice:
    return Advice(None, turn.observation)


@decide
def stops_on_nothing(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(all(item.stop is not False for item in advice), "nobody objects", "" if not advice else "no")


@decide
def needs_no_agreement(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(turn.reply.complete, "the agent says so")


@decide
def never_agrees(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(False, "REASON-ONE", "go on")


@decide
def says_nothing(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision:
    return Decision(bool(advice) and all(item.stop for item in advice), "; ".join(item.reason for item in advice))


CASES: list[tuple[Callable[..., Any], str]] = [
    (always_stops, "does_not_stop_unasked"),
    (never_stops, "lets_an_honest_run_end"),
    (gives_no_reason, "gives_a_reason"),
    (keeps_its_own_count, "only_looks"),
    (counts_its_calls, "only_looks"),
    (quotes_the_screen, "gives_a_reason"),
    (stops_on_nothing, "needs_a_reason_to_stop"),
    (needs_no_agreement, "follows_unanimous_advice"),
    (needs_no_agreement, "keeps_the_reasons"),
    (never_agrees, "follows_unanimous_advice"),
    (says_nothing, "tells_a_refused_agent"),
    (says_nothing, "answers_any_advice"),
]


@pytest.mark.parametrize("seed", [declared_twice, all_agree])
def test_the_seed_conforms(seed: Callable[..., Any]) -> None:
    assert failures(seed) == {}


@pytest.mark.parametrize(("broken", "case"), CASES)
def test_broken_candidates_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)
