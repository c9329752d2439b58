"""Hand the work over, as from one agent to the next: summary, questions, answers.

Source: Terminus-2's context management. What differs, and why:

* The pending prompt (the last observation, or the question whether the agent is sure) is replaced by the hand-over
  there, and lost. Here its tail, at most `TAIL_TOKENS`, closes the hand-over.
* The margin is at most a third of the window and at least a reply's limit, and a summary waits until half a margin of
  text has come since the last one. A window below the margin would otherwise ask for a summary in each turn, for ever
  (the complaint "condensation loop": OpenHands#8630, OpenHands#10873).
* Each part of a hand-over has a share of the window, so that three long answers cannot fill it again.
* After an overflow the window is taken to be no larger than what was refused, whatever its configured size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness import tokens
from harness.context import Context
from harness.errors import ModelFault, ReplyTruncated
from harness.history import tidy
from harness.registry import function
from harness.types import Message, Pending

SCREEN_CHARS = 1_000
"""How much of the screen the short hand-overs show."""
TAIL_TOKENS = 4_000
"""How much of the pending prompt is handed over: the whole of an observation of 10,000 bytes, nearly always."""
SHARES = 18
"""A hand-over has at most nine parts of one share of the free window each: half of it stays free."""
SMALLEST_SHARE = 100
"""Tokens below which a part says nothing. A window that has no room for this cannot be helped."""

_GO_ON = (
    "Take up the task where this leaves it. Nobody can be asked any more. Keep to the reply format that was given at "
    "the beginning."
)


@function(
    module="context",
    point="fit",
    describes="Near the window's end, and after an overflow, replace the history by summary, questions and answers.",
    order=10,
)
def three_step_summary(pending: Pending, ctx: Context) -> str:
    """Rewrites `State.history` when it must, and returns the prompt to send.

    At most four model calls ("summary", "questions", "answers", "short_summary"), none retried; the first prompt always
    survives. A proactive summary that fails is logged, and the run goes on as it is. With `Limits.summarize` off, and
    with no history yet, the prompt is returned untouched.
    """
    history = ctx.state.history
    # The kernel joins neighbours of one role, so after a hand-over `history[0]` holds more than the first prompt.
    first = Message("user", ctx.memo.setdefault("first", history[0].content if history else pending.prompt))
    if not ctx.limits.summarize or not history:
        return pending.prompt
    window = _window(pending, ctx)
    if pending.overflow:
        return _after_overflow(pending, ctx, window, first)
    if not _is_due(pending, ctx, window, first):
        return pending.prompt
    try:
        return _three_steps(_Handover(pending, ctx, window, [first]))
    except ModelFault as fault:
        ctx.log(f"the summary failed, the history stays: {fault}")
        return pending.prompt


# ------------------------------------------------------------------------------------------------------- when, how far


def _window(pending: Pending, ctx: Context) -> int:
    """The window in estimated tokens: calibrated, and not above what the service has just refused."""
    history = ctx.state.history
    window = int(ctx.limits.context_tokens / tokens.calibration(history, ctx.state.last_usage))
    refused = tokens.count([*history, Message("user", pending.prompt)])
    return min(window, refused) if pending.overflow else window


def _is_due(pending: Pending, ctx: Context, window: int, first: Message) -> bool:
    history = ctx.state.history
    margin = min(max(ctx.limits.summarize_below_tokens, ctx.limits.output_tokens or 0), window // 3)
    used = tokens.count(history)
    if window - used >= margin and used + tokens.count_text(pending.prompt) <= window:
        return False
    news = used - max(tokens.count([first]), ctx.memo.get("used_after_handover", 0))
    return news >= margin // 2


def _after_overflow(pending: Pending, ctx: Context, window: int, first: Message) -> str:
    """Make room, then try the richest hand-over that works. The last one asks no model and cannot fail."""
    history = ctx.state.history
    target = min(ctx.limits.unwind_until_tokens, window // 4)
    while len(history) > 1 and window - tokens.count(history) < target:
        del history[max(1, len(history) - 2) :]
    if window - tokens.count(history) < target:
        history[:] = [first]
    tiers: tuple[tuple[Callable[[_Handover], str], Sequence[Message]], ...] = (
        (_three_steps, [first]),
        (_short_summary, history),
    )
    for tier, kept in tiers:
        try:
            return tier(_Handover(pending, ctx, window, kept))
        except ModelFault as fault:
            ctx.log(f"the hand-over by {tier.__name__.strip('_')} failed: {fault}")
    return _without_model(_Handover(pending, ctx, window, history))


# -------------------------------------------------------------------------------------------------------- the hand-over


@dataclass(frozen=True)
class _Handover:
    """The material of one hand-over, each part cut to its share of what `kept` leaves of the window."""

    pending: Pending
    ctx: Context
    window: int
    kept: Sequence[Message]

    def share(self, shares: int = 1) -> int:
        free = self.window - tokens.count(self.kept)
        return shares * max(SMALLEST_SHARE, free // SHARES)

    def task(self) -> str:
        """The un-augmented instruction, with all that must survive."""
        instruction = tokens.clip(self.ctx.task.instruction, self.share(), keep="head")
        retained = tokens.clip(self.ctx.run.retained(), self.share(), keep="head")
        return retained if instruction in retained else _joined(instruction, retained)

    def screen(self, most_chars: int | None = None) -> str:
        text = self.ctx.terminal.read("screen").text
        text = text if most_chars is None else text[-most_chars:]
        return tokens.clip(text, self.share(), keep="tail")

    def tail(self) -> str:
        """The end of the prompt that the hand-over replaces."""
        tail = tokens.clip(self.pending.prompt, min(self.share(), TAIL_TOKENS), keep="tail")
        return f"What you were about to be told:\n{tail}" if tail.strip() else ""

    def ask(self, before: Sequence[Message], request: str, purpose: str, shares: int) -> str:
        """The model's text, cut to `shares`. What came of a reply that was cut off is better than nothing."""
        history, prompt = tidy(list(before), request)
        try:
            text = self.ctx.model.complete([*history, Message("user", prompt)], purpose).text
        except ReplyTruncated as fault:
            text = fault.text
        if not text.strip():
            raise ModelFault(f"an empty reply to {purpose!r}")
        return tokens.clip(text, self.share(shares), keep="head")


def _three_steps(handover: _Handover) -> str:
    """Summary (with the history), questions (with the summary only), answers (with the history)."""
    ctx, history, task = handover.ctx, handover.ctx.state.history, handover.task()
    request = _summary_request(task)
    summary = handover.ask(history, request, "summary", 2)
    opening = _questions_request(task, summary, handover.screen())
    questions = handover.ask([], opening, "questions", 1)
    told = [*history, Message("user", request), Message("assistant", summary)]
    answers = handover.ask(told, _answers_request(questions), "answers", 2)
    history[:] = [*handover.kept, Message("user", opening), Message("assistant", questions)]
    ctx.memo["used_after_handover"] = tokens.count(history) + tokens.count_text(answers)
    return _joined(f"These are the answers to your questions.\n\n{answers}", handover.tail(), _GO_ON)


def _short_summary(handover: _Handover) -> str:
    task, screen = handover.task(), handover.screen(SCREEN_CHARS)
    request = (
        f"Work on this task has to be carried on at once:\n{task}\n\nThe end of the terminal's screen:\n{screen}\n\n"
        "In two or three sentences: where does the work stand, and what comes next?"
    )
    summary = handover.ask([], request, "short_summary", 2)
    return _joined(task, f"Where the work stands: {summary}", handover.tail(), _GO_ON)


def _without_model(handover: _Handover) -> str:
    screen = handover.screen(SCREEN_CHARS)
    return _joined(handover.task(), f"The end of the terminal's screen:\n{screen}", handover.tail(), _GO_ON)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# -------------------------------------------------------------------------------------------------------------- wording


def _summary_request(task: str) -> str:
    return (
        "Another agent takes over from you now, and it has seen nothing of this conversation. Write down for it all "
        f"that you have done and found.\n\nThe task:\n{task}\n\nUse four headings:\n"
        "1. Actions: the commands that mattered, and what each of them showed.\n"
        "2. Findings: paths, settings, versions, messages, and the state the system is in.\n"
        "3. Difficulties: what went wrong, and how it was solved or why it is not.\n"
        "4. Status: which parts of the task are done, which are not, and what you were about to do.\n\n"
        "Be exact with names and numbers: what you leave out is lost."
    )


def _questions_request(task: str, summary: str, screen: str) -> str:
    return (
        f"You take over a task that another agent has begun.\n\nThe task:\n{task}\n\n"
        f"Its summary:\n{summary}\n\nThe terminal's screen:\n{screen}\n\n"
        "Before it leaves, you may ask it once. Ask at least five questions about the state of the work that its "
        "summary does not answer; afterwards you are on your own."
    )


def _answers_request(questions: str) -> str:
    return f"The next agent asks the following. Answer each question in turn, in detail.\n\n{questions}"
