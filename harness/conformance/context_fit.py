"""What every `context/fit` keeps: it ends, loses neither the task nor the news, and does not compress for ever.

A function that never compresses conforms too; one that does must keep what its history was for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import ENDLESS, checked, exchanges, reply, turns_asked, typed
from harness.context import Context
from harness.errors import ContextOverflow, ModelUnavailable, ReplyTruncated, Stopped
from harness.history import problem, tidy
from harness.points import Fit
from harness.registry import function
from harness.scripted import Request, ScriptedContext, ScriptedModel, ScriptedTerminal
from harness.types import Completion, Fault, Limits, Message, Pending, Recovery, Turn, Usage

NEWS = "NEWS: the last test failed with code 17"
MOST_CALLS = 8
_LONG = "What was done and found, in many words. " * 500


class Service(ScriptedModel):
    """A model with a window: four characters are a token, and a message costs four more. Other requests than turns
    get `summary` (a text, or an exception to raise)."""

    def __init__(self, window: int, summary: str | Exception = _LONG) -> None:
        super().__init__()
        self.window, self.summary = window, summary

    def complete(self, messages: Sequence[Message], purpose: str = "turn") -> Completion:
        self.requests.append(Request(tuple(messages), purpose))
        if len(self.requests) > ENDLESS:
            raise Stopped("the model was asked without end")
        if size(messages) > self.window:
            raise ContextOverflow(f"{size(messages)} tokens; the window has {self.window}")
        if purpose == "turn":
            return Completion(reply(f"make part-{len(self.requests)}\n"), usage=Usage(size(messages), 10))
        if isinstance(self.summary, Exception):
            raise self.summary
        return Completion(self.summary)


def size(messages: Sequence[Message]) -> int:
    """Tokens by the count of `Service`."""
    return sum(len(message.content) // 4 + 4 for message in messages)


def case_first_prompt_is_untouched(fn: Fit, make_context: ContextFactory) -> None:
    """Before the first reply there is nothing to compress."""
    ctx = make_context(model=Service(8_000), limits=Limits(context_tokens=8_000))
    prompt = checked(fn(Pending("The first prompt."), ctx), str)
    require(prompt == "The first prompt.", f"made it {prompt!r:.80}")
    require(not ctx.state.history, "put something into the empty history")


def case_short_history_is_untouched(fn: Fit, make_context: ContextFactory) -> None:
    """Far from the window's end, history and prompt stay as they are, and no request is made."""
    service = Service(200_000)
    ctx = make_context(model=service, limits=Limits(context_tokens=200_000))
    before = _begin(ctx, pairs=5, characters=1_000)
    require(fn(Pending(NEWS), ctx) == NEWS, "changed the prompt")
    require(ctx.state.history == before, "changed the history")
    require(not service.requests, "asked the model")


def case_what_is_left_fits(fn: Fit, make_context: ContextFactory) -> None:
    """After an overflow, a compressed history and its prompt fit the window, however long the model's summaries."""
    for window, summary in ((4_000, _LONG), (8_000, "Short."), (8_000, _LONG), (32_000, _LONG * 10)):
        ctx = _overflowing(make_context, window, summary)
        prompt = _compressed(fn, ctx)
        if prompt is not None:
            used = size([*ctx.state.history, Message("user", prompt)])
            require(used <= window, f"{used} tokens left for a window of {window}")


def case_task_and_format_survive(fn: Fit, make_context: ContextFactory) -> None:
    """After a compression the agent still has the instruction, the reply format and what must be retained."""
    for summary in (_LONG, "", ModelUnavailable("down")):
        ctx = _overflowing(make_context, 8_000, summary)
        prompt = _compressed(fn, ctx)
        if prompt is None:
            continue
        left = "\n".join([*(message.content for message in ctx.state.history), prompt])
        require(ctx.task.instruction in left, "lost the instruction")
        require(ctx.run.grammar().prompt in left, "lost the reply format")
        require("RETAIN-ME" in left, "lost what `retain` wanted to keep")


def case_news_survive(fn: Fit, make_context: ContextFactory) -> None:
    """The prompt that was about to be sent reaches the agent: all of a short one, the end of a huge one."""
    for news in (NEWS, "x" * 100_000 + NEWS):
        for overflow in (True, False):
            ctx = _overflowing(make_context, 8_000, _LONG)
            prompt = checked(fn(Pending(news, overflow), ctx), str)
            left = "".join(message.content for message in ctx.state.history) + prompt
            require(NEWS in left, f"lost the last lines of a prompt of {len(news)} characters")


def case_leaves_a_history_services_accept(fn: Fit, make_context: ContextFactory) -> None:
    """The history begins with a user message, and holds known roles only."""
    for overflow in (True, False):
        ctx = _overflowing(make_context, 8_000, _LONG)
        prompt = checked(fn(Pending(NEWS, overflow), ctx), str)
        wrong = problem(tidy(ctx.state.history, prompt)[0])
        require(not wrong, wrong)


def case_survives_a_failing_model(fn: Fit, make_context: ContextFactory) -> None:
    """When the model answers turns but no summaries, the turn takes place all the same."""
    for failure in (ModelUnavailable("down"), ContextOverflow("no"), ReplyTruncated("cut", ""), ""):
        service = Service(8_000, failure)
        ctx = make_context(model=service, limits=Limits(context_tokens=8_000))
        _begin(ctx, pairs=8, characters=2_000)
        answer = ctx.run.ask(NEWS)
        require(isinstance(answer, Turn), f"{failure!r:.40} in a summary became {answer!r:.120}")


def case_tiny_windows_end(fn: Fit, make_context: ContextFactory) -> None:
    """However small the window, and with an output limit as large as it, few requests are made and a prompt comes."""
    for window in (0, 1, 50, 500, 2_000):
        service = Service(window)
        ctx = make_context(model=service, limits=Limits(context_tokens=window, output_tokens=window))
        _begin(ctx, pairs=10, characters=1_000)
        for overflow in (False, True, True):
            asked = len(service.requests)
            prompt = checked(fn(Pending(NEWS, overflow), ctx), str)
            require(bool(prompt.strip()), f"an empty prompt in a window of {window}")
            calls = len(service.requests) - asked
            require(calls <= MOST_CALLS, f"{calls} requests to fit one prompt into a window of {window}")


def case_does_not_compress_for_ever(fn: Fit, make_context: ContextFactory) -> None:
    """In a run of 60 turns the requests for summaries stay in proportion, and the run reaches its end."""
    for window, most in ((24_000, 30), (6_000, 120)):
        service = Service(window)
        terminal = ScriptedTerminal(respond=lambda keys: keys + "one more line of the build\n" * 100)
        limits = Limits(max_turns=60, context_tokens=window, output_tokens=window)
        ctx = make_context(_patient, model=service, terminal=terminal, limits=limits)
        ending = ctx.drive()
        require(ending.reason == "max_turns", f"in a window of {window} it ended with {ending}")
        extra = len(service.requests) - turns_asked(service)
        require(extra <= most, f"{extra} requests besides 60 turns in a window of {window}")


def case_long_runs_stay_inside(fn: Fit, make_context: ContextFactory) -> None:
    """A function that compresses keeps a long run inside the window: every turn gets a reply."""
    faults: list[Fault] = []

    @function(module="agent_loop", point="recover", describes="counts")
    def recover(fault: Fault, ctx: Context) -> Recovery:
        faults.append(fault)
        return Recovery(prompt="Go on.")

    service = Service(8_000)
    terminal = ScriptedTerminal(respond=lambda keys: keys + "one more line of the build\n" * 100)
    ctx = make_context(recover, model=service, terminal=terminal, limits=Limits(max_turns=60, context_tokens=8_000))
    ctx.drive()
    lengths = [len(request.messages) for request in service.requests if request.purpose == "turn"]
    compressed = any(later < earlier for earlier, later in pairwise(lengths))
    require(not compressed or not faults, f"{len(faults)} of 60 turns got no reply: {faults[:1]!r:.120}")


def case_switched_off_asks_nothing(fn: Fit, make_context: ContextFactory) -> None:
    """`Limits.summarize` off: no request is made, and a prompt comes back."""
    service = Service(8_000)
    ctx = make_context(model=service, limits=Limits(context_tokens=8_000, summarize=False))
    _begin(ctx, pairs=30, characters=2_000)
    for overflow in (False, True):
        require(bool(checked(fn(Pending(NEWS, overflow), ctx), str).strip()), "an empty prompt")
    require(not service.requests, "asked the model though summaries are switched off")


def case_labels_its_requests(fn: Fit, make_context: ContextFactory) -> None:
    """Its requests are not labelled as turns, and it types nothing."""
    ctx = _overflowing(make_context, 8_000, _LONG)
    fn(Pending(NEWS, overflow=True), ctx)
    require(isinstance(ctx.model, Service) and not turns_asked(ctx.model), "labelled a summary as a turn")
    require(not typed(ctx), "typed into the terminal")


@function(module="agent_loop", point="recover", describes="asks again, always")
def _patient(fault: Fault, ctx: Context) -> Recovery:
    return Recovery(prompt="Go on.")


@function(module="context", point="retain", describes="a mark")
def _retain(ctx: Context) -> str:
    return "RETAIN-ME"


def _overflowing(make_context: ContextFactory, window: int, summary: str | Exception) -> ScriptedContext:
    """A context whose history is half as long again as the window."""
    ctx = make_context(_retain, model=Service(window, summary), limits=Limits(context_tokens=window))
    _begin(ctx, pairs=30, characters=window // 6)
    return ctx


def _begin(ctx: ScriptedContext, pairs: int, characters: int) -> list[Message]:
    """Give the context a history that starts with its own first prompt; returns a copy."""
    ctx.state.history.extend(exchanges(ctx.run.first_prompt(), pairs, characters))
    return list(ctx.state.history)


def _compressed(fn: Fit, ctx: ScriptedContext) -> str | None:
    """The prompt after an overflow, or None when `fn` left the history as it was."""
    before = list(ctx.state.history)
    prompt = checked(fn(Pending(NEWS, overflow=True), ctx), str)
    return None if ctx.state.history == before else prompt
