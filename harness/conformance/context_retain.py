"""What every `context/retain` keeps: a bounded text, the same when nothing has happened, at no cost."""

from __future__ import annotations

from harness.conformance.base import ContextFactory, require
from harness.conformance.scenes import checked, enter, exchanges, odd_turns, remembered, typed
from harness.points import Retain
from harness.scripted import ScriptedContext, ScriptedModel
from harness.types import Task

MOST_CHARS = 40_000


def case_is_bounded(fn: Retain, make_context: ContextFactory) -> None:
    """However long the instruction and the run, the text stays below 40,000 characters."""
    for task in (Task(""), Task("Fix it."), Task("x" * 1_000_000), Task("Read é世😀 and\ntell.\n" * 20_000)):
        ctx = _used(make_context(task=task))
        text = checked(fn(ctx), str)
        require(len(text) <= MOST_CHARS, f"{len(text)} characters")


def case_works_from_the_start(fn: Retain, make_context: ContextFactory) -> None:
    """Before the first turn there is no history and no turn."""
    checked(fn(make_context(task=Task(""))), str)
    checked(fn(make_context()), str)


def case_does_not_grow_by_being_read(fn: Retain, make_context: ContextFactory) -> None:
    """Asked again with nothing new, it answers the same."""
    ctx = _used(make_context())
    first = fn(ctx)
    for _ in range(10):
        require(fn(ctx) == first, "the text changed though nothing had happened")


def case_survives_the_loss_of_the_history(fn: Retain, make_context: ContextFactory) -> None:
    """What was worth keeping is kept after a compression has emptied the history."""
    ctx = _used(make_context())
    before = fn(ctx)
    ctx.state.history.clear()
    require(bool(fn(ctx).strip()) or not before.strip(), "kept nothing once the history was gone")


def case_costs_nothing(fn: Retain, make_context: ContextFactory) -> None:
    """It runs when the window is full: no model request, nothing typed, the state left alone."""
    model = ScriptedModel(then="a summary")
    ctx = _used(make_context(model=model))
    before = remembered(ctx)
    fn(ctx)
    require(not model.requests, "asked the model")
    require(not typed(ctx), "typed into the terminal")
    require(remembered(ctx) == before, "changed the state")


def _used(ctx: ScriptedContext) -> ScriptedContext:
    """A context in the middle of a run."""
    ctx.state.history.extend(exchanges("Reply in JSON.\n\nYour task:\nFix it.", 20, 2_000))
    for step in odd_turns():
        if step.stage == "observed":
            enter(ctx, step)
    return ctx
