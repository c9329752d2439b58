"""The seed's `context`: when it compresses, in which steps, and what the agent still knows afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import tokens
from harness.conformance.context_fit import Service, size
from harness.conformance.scenes import exchanges, reply
from harness.context import Context
from harness.errors import ContextOverflow, ModelUnavailable, ReplyTruncated, Stopped
from harness.modules.context.fit.none import none
from harness.modules.context.fit.three_step_summary import three_step_summary
from harness.modules.context.retain.task_statement import MOST_CHARS, task_statement
from harness.registry import function
from harness.scripted import ScriptedContext, ScriptedModel, ScriptedTerminal, make_context
from harness.types import Limits, McpServer, Message, Pending, Task, Turn, Usage

FIRST = "FIRST PROMPT with the format and the task."
SUMMARY, QUESTIONS, ANSWERS = "SUMMARY: half done.", "QUESTIONS: which half?", "ANSWERS: the first."
STEPS = [SUMMARY, QUESTIONS, ANSWERS]
WINDOW = 40_000


@function(module="context", point="retain", describes="a path")
def keep_path(ctx: Context) -> str:
    return "The data is in /srv/data."


def context(
    answers: Sequence[Any], used: int, *functions: Any, window: int = WINDOW, **limits: Any
) -> tuple[ScriptedContext, ScriptedModel]:
    """A context whose history takes about `used` estimated tokens."""
    model = ScriptedModel(answers)
    terminal = ScriptedTerminal(screen="x" * 3_000 + "SCREEN-END$ ")
    task = Task("Sort the numbers.", mcp_servers=(McpServer("search", "sse", "http://search"),))
    ctx = make_context(
        three_step_summary, *functions, model=model, terminal=terminal, task=task,
        limits=Limits(context_tokens=window, **limits),
    )  # fmt: skip
    pairs = exchanges(FIRST, 400, 1_000)
    while len(ctx.state.history) < len(pairs) and tokens.count(ctx.state.history) < used:
        size = len(ctx.state.history)
        ctx.state.history.extend(pairs[size : size + 2])
    return ctx, model


def purposes(model: ScriptedModel) -> list[str]:
    return [request.purpose for request in model.requests]


def text(messages: Sequence[Message]) -> str:
    return "\n".join(message.content for message in messages)


# ----------------------------------------------------------------------------------------------------------- proactive


def test_the_margin_is_that_of_the_limits() -> None:
    for used, compressed in ((31_000, False), (33_000, True)):
        ctx, model = context(STEPS, used)
        three_step_summary(Pending("news"), ctx)
        assert bool(model.requests) is compressed


def test_in_a_small_window_the_margin_is_a_third() -> None:
    for used, compressed in ((5_500, False), (6_500, True)):
        ctx, model = context(STEPS, used, window=9_000)
        three_step_summary(Pending("news"), ctx)
        assert bool(model.requests) is compressed


def test_a_prompt_that_cannot_fit_is_not_sent() -> None:
    for characters, compressed in ((36_000, False), (44_000, True)):
        ctx, model = context(STEPS, 30_000)
        three_step_summary(Pending("y" * characters), ctx)
        assert bool(model.requests) is compressed


def test_three_steps() -> None:
    ctx, model = context(STEPS, 35_000)
    before = list(ctx.state.history)
    prompt = three_step_summary(Pending("THE NEWS"), ctx)
    summary, questions, answers = model.requests
    assert purposes(model) == ["summary", "questions", "answers"]
    assert list(summary.messages[:-1]) == before
    assert len(questions.messages) == 1
    assert SUMMARY in text(questions.messages)
    assert "SCREEN-END" in text(questions.messages)
    assert list(answers.messages[: len(before)]) == before
    assert answers.messages[len(before) + 1].content == SUMMARY
    assert QUESTIONS in answers.messages[-1].content
    first, opening, asked = ctx.state.history
    assert (first, opening, asked.content) == (before[0], questions.messages[0], QUESTIONS)
    assert prompt.index(ANSWERS) < prompt.index("THE NEWS")


def test_summaries_are_told_the_bare_instruction() -> None:
    ctx, model = context(STEPS, 35_000)
    three_step_summary(Pending("news"), ctx)
    for request in (model.requests[0].messages[-1], model.requests[1].messages[0]):
        assert "Sort the numbers." in request.content
        assert "http://search" not in request.content


@pytest.mark.parametrize("answers", [STEPS, [ModelUnavailable("x"), "in short"], [ModelUnavailable("x")] * 2])
def test_what_is_retained_is_in_every_hand_over(answers: list[Any]) -> None:
    ctx, _ = context(answers, 50_000, keep_path)
    prompt = three_step_summary(Pending("news", overflow=True), ctx)
    left = text(ctx.state.history) + prompt
    assert "The data is in /srv/data." in left
    assert "Sort the numbers." in left


def test_the_task_is_not_told_twice_when_it_is_retained() -> None:
    ctx, model = context(STEPS, 35_000, task_statement)
    three_step_summary(Pending("news"), ctx)
    assert text(model.requests[1].messages).count("Sort the numbers.") == 1


@pytest.mark.parametrize("failing", range(3))
def test_a_failing_proactive_summary_is_logged_and_ignored(failing: int) -> None:
    answers = [*STEPS[:failing], ModelUnavailable("the service is down")]
    ctx, _ = context(answers, 35_000)
    before = list(ctx.state.history)
    assert three_step_summary(Pending("news"), ctx) == "news"
    assert ctx.state.history == before
    assert "the service is down" in ctx.notes[0]


def test_the_engine_s_stop_is_not_a_failing_summary() -> None:
    ctx, _ = context([], 35_000)
    with pytest.raises(Stopped):
        three_step_summary(Pending("news"), ctx)


def test_a_cut_summary_is_used() -> None:
    ctx, model = context([ReplyTruncated("cut", "SUMMARY: hal"), QUESTIONS, ANSWERS], 35_000)
    three_step_summary(Pending("news"), ctx)
    assert "SUMMARY: hal" in text(model.requests[1].messages)


def test_a_second_hand_over_starts_from_the_first_prompt() -> None:
    """The kernel joins the first prompt and the hand-over into one message; it must not grow by another each time."""
    ctx, _ = context([*STEPS, reply("ls\n"), *STEPS, reply("ls\n")], 35_000)
    sizes: list[int] = []
    for _ in range(2):
        assert isinstance(ctx.run.ask("news"), Turn)
        sizes.append(len(ctx.state.history[0].content))
        assert ctx.state.history[0].content.startswith(FIRST)
        ctx.state.history.extend(exchanges("and then", 100, 1_000))
    assert sizes[1] <= sizes[0]


def test_no_summary_until_something_new_has_come() -> None:
    ctx, model = context(STEPS * 2, 35_000)
    three_step_summary(Pending("news"), ctx)
    ctx.limits = Limits(context_tokens=tokens.count(ctx.state.history) + 10)
    three_step_summary(Pending("news"), ctx)
    assert len(model.requests) == 3


def test_the_reply_s_limit_is_kept_free() -> None:
    for output_tokens, compressed in ((None, False), (12_000, True)):
        ctx, model = context(STEPS, 30_000, output_tokens=output_tokens)
        three_step_summary(Pending("news"), ctx)
        assert bool(model.requests) is compressed


def test_the_service_s_own_count_decides() -> None:
    for counted, compressed in ((15_000, False), (34_000, True)):
        ctx, model = context(STEPS, 20_000)
        ctx.state.last_usage = Usage(prompt_tokens=counted)
        three_step_summary(Pending("news"), ctx)
        assert bool(model.requests) is compressed


# ------------------------------------------------------------------------------------------------------------ overflow


@pytest.mark.parametrize("window", range(40_000, 41_000, 100))
def test_exchanges_are_unwound_from_the_end(window: int) -> None:
    ctx, model = context(STEPS, 60_000, window=window)
    before = list(ctx.state.history)
    three_step_summary(Pending("news", overflow=True), ctx)
    kept = list(model.requests[0].messages[:-1])
    assert kept == before[: len(kept)]
    assert len(kept) % 2 == 0
    assert "observation" not in model.requests[0].messages[-1].content  # no half of an exchange is left
    assert tokens.count(kept) <= window - 4_000 < tokens.count(before[: len(kept) + 2])


def test_the_short_hand_overs_show_the_end_of_the_screen_only() -> None:
    for answers in ([ModelUnavailable("down"), "in short"], [ModelUnavailable("down")] * 2):
        ctx, model = context(answers, 1_000)
        ctx.state.history.extend(exchanges("y" * 200_000, 1, 10))
        prompt = three_step_summary(Pending("news", overflow=True), ctx)
        shown = model.requests[1].messages[0].content if "in short" in answers else prompt
        assert 900 < shown.count("x") < 1_050
        assert "SCREEN-END" in shown


def test_a_hand_over_that_has_grown_too_large_is_dropped_for_the_first_prompt() -> None:
    ctx, _ = context([ModelUnavailable("down")] * 2, 1_000, window=20_000)
    three_step_summary(Pending("news"), ctx)
    ctx.state.history[0] = Message("user", FIRST + "y" * 200_000)
    three_step_summary(Pending("news", overflow=True), ctx)
    assert ctx.state.history == [Message("user", FIRST)]


def test_the_short_summary_is_a_fresh_request_and_keeps_the_unwound_history() -> None:
    ctx, model = context([ContextOverflow("no"), "IN SHORT: go on"], 60_000)
    prompt = three_step_summary(Pending("THE NEWS", overflow=True), ctx)
    assert purposes(model) == ["summary", "short_summary"]
    (request,) = model.requests[1].messages
    assert "SCREEN-END" in request.content
    assert request.content.count("x") < 1_100
    assert len(ctx.state.history) > 2
    for part in ("Sort the numbers.", "IN SHORT: go on", "THE NEWS"):
        assert part in prompt


def test_without_any_model_the_screen_is_handed_over() -> None:
    ctx, model = context([ModelUnavailable("down")] * 2, 60_000)
    prompt = three_step_summary(Pending("THE NEWS", overflow=True), ctx)
    assert purposes(model) == ["summary", "short_summary"]
    for part in ("Sort the numbers.", "SCREEN-END", "THE NEWS"):
        assert part in prompt


def test_of_a_huge_observation_the_tail_is_handed_over() -> None:
    ctx, _ = context(STEPS, 30_000)
    prompt = three_step_summary(Pending("y" * 500_000 + "THE VERDICT", overflow=True), ctx)
    assert "THE VERDICT" in prompt
    assert tokens.count_text(prompt) < 5_000


def test_the_first_prompt_stays_when_nothing_else_fits() -> None:
    ctx, _ = context([ContextOverflow("no")] * 2, 3_000, window=50)
    prompt = three_step_summary(Pending("news", overflow=True), ctx)
    assert ctx.state.history == [Message("user", FIRST)]
    assert "news" in prompt


def test_a_refused_prompt_says_how_large_the_window_is() -> None:
    """With a window configured a hundred times too large, an overflow still makes room."""
    ctx, model = context(STEPS, 20_000, window=2_000_000)
    before = len(ctx.state.history)
    three_step_summary(Pending("news", overflow=True), ctx)
    assert len(model.requests[0].messages) < before


def test_switched_off_nothing_changes() -> None:
    ctx, model = context(STEPS, 60_000, summarize=False)
    before = list(ctx.state.history)
    assert three_step_summary(Pending("news", overflow=True), ctx) == "news"
    assert (ctx.state.history, model.requests) == (before, [])


def test_none_never_compresses() -> None:
    ctx, model = context(STEPS, 60_000)
    before = list(ctx.state.history)
    assert none(Pending("news", overflow=True), ctx) == "news"
    assert (ctx.state.history, model.requests) == (before, [])


# -------------------------------------------------------------------------------------------------------------- retain


def test_the_task_statement_is_verbatim() -> None:
    instruction = "  Sort\tthe numbers:\n\n1. é世😀\n"
    assert task_statement(make_context(task=Task(instruction))).endswith(f"\n{instruction}")


def test_a_task_statement_without_a_task_is_empty() -> None:
    assert task_statement(make_context(task=Task(" \n"))) == ""


def test_a_huge_task_statement_is_cut_and_says_so() -> None:
    kept = task_statement(make_context(task=Task("a" * (MOST_CHARS + 7))))
    assert kept.count("a" * MOST_CHARS) == 1
    assert "[7 more characters" in kept


@settings(max_examples=60, deadline=None)
@given(
    window=st.integers(0, 60_000),
    pairs=st.integers(1, 12),
    characters=st.integers(0, 20_000),
    output_tokens=st.none() | st.integers(0, 60_000),
    summary=st.sampled_from(["short", "long words " * 3_000, "", ModelUnavailable("down"), ReplyTruncated("cut", "x")]),
    news=st.integers(0, 40_000),
)
def test_whatever_the_window_it_ends_and_loses_neither_task_nor_news(
    window: int, pairs: int, characters: int, output_tokens: int | None, summary: Any, news: int
) -> None:
    service = Service(window, summary)
    limits = Limits(context_tokens=window, output_tokens=output_tokens)
    ctx = make_context(three_step_summary, model=service, limits=limits)
    ctx.state.history.extend(exchanges(FIRST, pairs, characters))
    prompt = three_step_summary(Pending("n" * news + "THE VERDICT", overflow=False), ctx)
    for _ in range(2):
        prompt = three_step_summary(Pending(prompt, overflow=True), ctx)
        assert ctx.state.history[0].content.startswith(FIRST)
        assert "THE VERDICT" in text(ctx.state.history) + prompt
    assert len(service.requests) <= 3 + 2 * 4
    if window >= 4_000:
        assert size([*ctx.state.history, Message("user", prompt)]) <= window
