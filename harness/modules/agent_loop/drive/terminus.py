"""The loop of Terminus-2, one call of a phase after another."""

from __future__ import annotations

from dataclasses import replace

from harness.context import Context
from harness.registry import function
from harness.types import Ending, Fault, Turn

# A reply that `recover` puts in place of a faulty one is read like any other and can be faulty too. One is the rule,
# two are generous; without an end, a `recover` that always salvages would hold the run here without asking the model.
SALVAGES = 3


@function(
    module="agent_loop",
    point="drive",
    describes="Ask, run the commands, look, and ask again until completion is decided or the turns are used up.",
    order=10,
)
def terminus(ctx: Context) -> Ending:
    """One turn: ask → (recover) → guard → execute → observe → guard → decide.

    A faulty reply runs nothing and does not reach `decide`, so a pending completion outlives it. `max_turns` counts
    questions to the model; when they are used up the run just ends, and its state is graded as it is.
    """
    prompt = ctx.run.first_prompt()
    while ctx.state.number < ctx.limits.max_turns:
        answer = _settle(ctx.run.ask(prompt), ctx)
        if isinstance(answer, Ending):
            return answer
        if isinstance(answer, str):
            prompt = answer
            continue
        turn, before, early = ctx.run.guard(answer)
        turn = ctx.run.observe(ctx.run.execute(turn))
        turn, after, late = ctx.run.guard(turn)
        reopened = (*early, *late)
        decision = ctx.run.decide(_unclaimed(turn) if reopened else turn)
        if decision.stop:
            return Ending("complete", decision.reason)
        prompt = _next_prompt(turn, (before, after, _open(turn, reopened)), decision.prompt)
    return Ending("max_turns", f"{ctx.state.number} turns")


def _settle(answer: Turn | Fault, ctx: Context) -> Turn | str | Ending:
    """Follow `recover` from a fault to a turn to act on, a prompt to ask with, or the end."""
    for _ in range(SALVAGES):
        if isinstance(answer, Turn):
            return answer
        recovery = ctx.run.recover(answer)
        if recovery.stop:
            return Ending(recovery.stop, answer.message)
        if not recovery.reply:
            return recovery.prompt
        answer = ctx.run.use_reply(answer.prompt, recovery.reply)
    return answer if isinstance(answer, Turn) else Ending("faults", f"no salvaged reply was readable: {answer.message}")


def _unclaimed(turn: Turn) -> Turn:
    """The turn without its completion claim: a guard has shown that something is missing."""
    return replace(turn, reply=replace(turn.reply, complete=False))


def _open(turn: Turn, reopened: tuple[str, ...]) -> str:
    if not reopened:
        return ""
    head = "The task does not count as complete; still open:" if turn.reply.complete else "Still open:"
    return "\n".join([head, *(f"- {requirement}" for requirement in reopened)])


def _next_prompt(turn: Turn, feedback: tuple[str, ...], question: str) -> str:
    """What the agent reads next: feedback, the terminal, and last (where it is read best) a question to answer."""
    screen = f"The terminal now:\n{turn.observation}" if question else turn.observation
    return "\n\n".join(part for part in (*feedback, screen, question) if part)
