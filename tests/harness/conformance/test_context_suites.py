"""The seed conforms, and each kind of broken candidate is refused by the case that is about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.conformance import failures

from harness.context import Context
from harness.errors import ModelFault
from harness.modules.context.fit.none import none
from harness.modules.context.fit.three_step_summary import three_step_summary
from harness.modules.context.retain.task_statement import task_statement
from harness.registry import function
from harness.types import Message, Pending

fit = function(module="context", point="fit", describes="broken")
retain = function(module="context", point="retain", describes="broken")


@fit
def forgets_everything(pending: Pending, ctx: Context) -> str:
    if pending.overflow:
        ctx.state.history.clear()
    return pending.prompt


@fit
def drops_one_exchange(pending: Pending, ctx: Context) -> str:
    if pending.overflow:
        del ctx.state.history[2:4]
    return f"{ctx.run.retained()}\n{pending.prompt}" if pending.overflow else pending.prompt


@fit
def loses_the_news(pending: Pending, ctx: Context) -> str:
    if not pending.overflow:
        return pending.prompt
    del ctx.state.history[2:]
    return f"{ctx.run.retained()}\nGo on with the task."


@fit
def summarises_each_turn(pending: Pending, ctx: Context) -> str:
    if len(ctx.state.history) < 2 or not ctx.limits.summarize:
        return pending.prompt
    request = Message("user", "Sum up.")
    try:
        summary = ctx.model.complete([*ctx.state.history, request], "summary").text
    except ModelFault:
        return pending.prompt
    ctx.state.history[:] = ctx.state.history[:1]
    return f"{summary[:2000]}\n{pending.prompt}"


@fit
def asks_until_it_works(pending: Pending, ctx: Context) -> str:
    while pending.overflow:
        try:
            summary = ctx.model.complete(ctx.state.history, "summary").text
        except ModelFault:
            continue
        del ctx.state.history[1:]
        return summary + pending.prompt
    return pending.prompt


@fit
def lets_faults_through(pending: Pending, ctx: Context) -> str:
    if len(ctx.state.history) > 4:
        return ctx.model.complete(ctx.state.history, "summary").text + pending.prompt
    return pending.prompt


@fit
def calls_a_summary_a_turn(pending: Pending, ctx: Context) -> str:
    return (
        ctx.model.complete(ctx.state.history[:1], "turn").text + pending.prompt if pending.overflow else pending.prompt
    )


@fit
def begins_with_the_assistant(pending: Pending, ctx: Context) -> str:
    if pending.overflow:
        del ctx.state.history[:1]
    return pending.prompt


@fit
def always_adds_something(pending: Pending, ctx: Context) -> str:
    return f"Think hard.\n{pending.prompt}"


@retain
def keeps_the_whole_history(ctx: Context) -> str:
    return "\n".join(message.content for message in ctx.state.history)


@retain
def keeps_a_growing_list(ctx: Context) -> str:
    ctx.memo.setdefault("notes", []).append(ctx.task.instruction)
    return "\n".join(ctx.memo["notes"])


@retain
def asks_the_model(ctx: Context) -> str:
    return ctx.model.complete(ctx.state.history, "notes").text


@retain
def looks_at_the_history_now(ctx: Context) -> str:
    return ctx.state.history[-1].content[:1000] if ctx.state.history else ""


CASES: list[tuple[Callable[..., Any], str]] = [
    (forgets_everything, "task_and_format_survive"),
    (drops_one_exchange, "what_is_left_fits"),
    (loses_the_news, "news_survive"),
    (summarises_each_turn, "short_history_is_untouched"),
    (summarises_each_turn, "does_not_compress_for_ever"),
    (asks_until_it_works, "tiny_windows_end"),
    (lets_faults_through, "survives_a_failing_model"),
    (lets_faults_through, "switched_off_asks_nothing"),
    (calls_a_summary_a_turn, "labels_its_requests"),
    (begins_with_the_assistant, "leaves_a_history_services_accept"),
    (always_adds_something, "first_prompt_is_untouched"),
    (keeps_the_whole_history, "is_bounded"),
    (keeps_a_growing_list, "does_not_grow_by_being_read"),
    (asks_the_model, "costs_nothing"),
    (looks_at_the_history_now, "survives_the_loss_of_the_history"),
]


@pytest.mark.parametrize("seed", [three_step_summary, none, task_statement])
def test_the_seed_conforms(seed: Callable[..., Any]) -> None:
    assert failures(seed) == {}


@pytest.mark.parametrize(("broken", "case"), CASES)
def test_broken_candidates_are_refused(broken: Callable[..., Any], case: str) -> None:
    assert case in failures(broken)
