"""The seed's `completion`."""

from __future__ import annotations

import pytest

from harness.conformance.scenes import turn
from harness.modules.completion.check.declared_twice import declared_twice
from harness.modules.completion.decide.all_agree import all_agree
from harness.scripted import make_context
from harness.types import Advice

YES, NO, PASS = Advice(True, "yes"), Advice(False, "no"), Advice(None)


@pytest.mark.parametrize(
    ("complete", "pending", "stop"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, True)],
)
def test_declared_twice(complete: bool, pending: bool, stop: bool) -> None:
    ctx = make_context()
    ctx.state.pending_completion = pending
    advice = declared_twice(turn(complete=complete), ctx)
    assert advice.stop is stop
    assert advice.reason


@pytest.mark.parametrize(
    ("advice", "stop"),
    [([YES], True), ([YES, PASS], True), ([YES, NO], False), ([NO], False), ([PASS], False), ([], False)],
)
def test_all_agree(advice: list[Advice], stop: bool) -> None:
    assert all_agree(turn(complete=True), advice, make_context()).stop is stop


def test_a_refused_claim_is_answered_with_the_reasons_and_the_question() -> None:
    ctx = make_context()
    advice = [
        Advice(False, "no test was run"),
        YES,
        Advice(False, "a file is missing"),
        Advice(False, "no test was run"),
    ]
    decision = all_agree(turn(complete=True), advice, ctx)
    assert decision.reason == "no test was run; a file is missing"
    assert decision.reason in decision.prompt
    assert decision.prompt.endswith(ctx.run.grammar().confirm)


def test_without_a_claim_nothing_is_asked() -> None:
    decision = all_agree(turn("ls\n"), [NO], make_context())
    assert (decision.stop, decision.reason, decision.prompt) == (False, "no", "")
