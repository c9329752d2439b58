"""The kernel's steps (`harness.context.Phases`): how the points work together in one turn.

Only these steps write the state. `history` changes in `ask` (the exchange of this turn is added), inside it in
`context/fit` (any rewrite, then restored to the invariant of `harness.history`), in `use_reply` (the used text replaces
the faulty reply) and in `recover` (`keep_reply=False` takes the faulty exchange out again). `pending_completion` is set
in `decide`: this turn declared the task complete, no guard reopened it, and the run was not told to stop. A turn
without the claim clears it; an unreadable reply never reaches `decide` and leaves it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from harness.blocks import helper_block, mcp_block, skills_block
from harness.context import Context
from harness.errors import ContextOverflow, ModelFault, ModelUnavailable, ReplyTruncated, Stopped
from harness.history import clean, filled, is_history, problem, tidy
from harness.registry import Function
from harness.tracing import Tracer, summarise
from harness.types import (
    Advice,
    Completion,
    Decision,
    Fault,
    Grammar,
    Guidance,
    Message,
    Pending,
    Recovery,
    Reply,
    Routed,
    Snapshot,
    Turn,
)


class Steps:
    """The phases of one rollout. `active` maps each point to its functions in the composition's order."""

    def __init__(self, ctx: Context, active: Mapping[str, tuple[Function, ...]], tracer: Tracer) -> None:
        self._ctx = ctx
        self._active = active
        self._tracer = tracer
        self._grammar: Grammar | None = None
        self._reopened_in = 0

    # ------------------------------------------------------------------------------------------------------ prompt

    def grammar(self) -> Grammar:
        grammar = self._grammar or self._one("tools/grammar")
        self._grammar = grammar
        return grammar

    def first_prompt(self) -> str:
        task = self._ctx.task
        _, shown = self._look(())
        parts = (
            self.grammar().prompt,
            helper_block(self._many("tools/command")),
            mcp_block(task.mcp_servers),
            skills_block(task.skills),
            f"Your task:\n{task.instruction}",
            shown,
        )
        return "\n\n".join(part.strip("\n") for part in parts if part.strip())

    # ------------------------------------------------------------------------------------------------------- model

    def ask(self, prompt: str) -> Turn | Fault:
        self._next_turn()
        sent = prompt
        try:
            sent = self._fit(Pending(prompt))
            try:
                completion = self._complete(sent)
            except ContextOverflow:
                sent = self._fit(Pending(sent, overflow=True))
                completion = self._complete(sent)
        except ReplyTruncated as error:
            return self._truncated(sent, error)
        except ContextOverflow as error:
            return self._fault("overflow", error.message, sent)
        except ModelFault as error:
            return self._fault("unavailable", error.message, sent)
        return self._read(sent, completion.text)

    def use_reply(self, prompt: str, text: str) -> Turn | Fault:
        history = self._ctx.state.history
        if self._ends_with(prompt):
            del history[-2:]
        return self._read(filled(prompt), text)

    def recover(self, fault: Fault) -> Recovery:
        recovery: Recovery = self._one("agent_loop/recover", fault)
        answers = [bool(recovery.prompt), bool(recovery.reply), bool(recovery.stop)]
        if answers.count(True) != 1:
            entry = self._active["agent_loop/recover"][0]
            raise self._tracer.fail(entry, "must set exactly one of prompt, reply and stop")
        if not recovery.keep_reply and fault.kind not in ("overflow", "unavailable") and self._ends_with(fault.prompt):
            del self._ctx.state.history[-2:]
        return recovery

    def _next_turn(self) -> None:
        state, limit = self._ctx.state, self._ctx.limits.max_turns
        self._tracer.flush()
        if self._tracer.failure is not None:
            # This run ends as a failure of that function whatever `drive` makes of it: spend no more on it.
            raise self._tracer.failure
        if state.number >= limit:
            raise Stopped(f"the turn limit of {limit} is used up")
        state.number += 1
        self._tracer.turn = state.number

    def _fit(self, pending: Pending) -> str:
        """Let `context/fit` rewrite the history; returns the prompt to send."""
        entry, state = self._active["context/fit"][0], self._ctx.state
        try:
            prompt: str = self._tracer.call(entry, pending, self._ctx)
        except ReplyTruncated as error:
            # Not the reply to the agent's prompt: a request of its own that `fit` did not look after.
            raise ModelUnavailable(f"{entry.key} let a truncated reply through: {error.message}") from error
        wrong = "it holds things that are not a Message"
        if is_history(state.history):
            state.history[:], prompt = tidy(state.history, prompt)
            wrong = problem(state.history)
        if wrong:
            raise self._tracer.fail(entry, f"left a history that no service accepts: {wrong}")
        return prompt

    def _complete(self, prompt: str) -> Completion:
        state = self._ctx.state
        completion = self._ctx.model.complete([*state.history, Message("user", prompt)])
        state.last_usage = completion.usage
        return completion

    def _truncated(self, prompt: str, error: ReplyTruncated) -> Turn | Fault:
        text = self._salvage(error.text)
        if text is not None:
            reply = self._parse(text)
            if not reply.error:
                return self._turn(prompt, text, reply)
        self._keep(prompt, error.text)
        return self._fault("truncated", error.message, prompt, error.text)

    def _salvage(self, text: str) -> str | None:
        salvage, entry = self.grammar().salvage, self._active["tools/grammar"][0]
        if salvage is None:
            return None
        return self._tracer.run(entry, lambda: salvage(text), "", lambda found: f"salvage: {found is not None}")

    def _read(self, prompt: str, text: str) -> Turn | Fault:
        reply = self._parse(text)
        if not reply.error:
            return self._turn(prompt, text, reply)
        self._keep(prompt, text)
        return self._fault("unreadable", reply.error, prompt, text, reply)

    def _parse(self, text: str) -> Reply:
        grammar, entry = self.grammar(), self._active["tools/grammar"][0]
        parse = grammar.parse
        return self._tracer.run(entry, lambda: parse(text), "Reply", lambda reply: f"parse: {summarise(reply)}")

    def _turn(self, prompt: str, text: str, reply: Reply) -> Turn:
        self._keep(prompt, text)
        self._ctx.state.faults_in_a_row = 0
        return Turn(self._ctx.state.number, "proposed", prompt, reply)

    def _fault(
        self,
        kind: Literal["unreadable", "truncated", "overflow", "unavailable"],
        message: str,
        prompt: str,
        text: str = "",
        reply: Reply | None = None,
    ) -> Fault:
        state = self._ctx.state
        state.faults_in_a_row += 1
        return Fault(kind, message, prompt, text, reply, state.faults_in_a_row)

    def _keep(self, prompt: str, text: str) -> None:
        self._ctx.state.history += [Message("user", prompt), Message("assistant", filled(text))]

    def _ends_with(self, prompt: str) -> bool:
        history = self._ctx.state.history
        return len(history) >= 2 and history[-2] == Message("user", filled(prompt))

    # -------------------------------------------------------------------------------------------------------- turn

    def guard(self, turn: Turn) -> tuple[Turn, str, tuple[str, ...]]:
        feedback: list[str] = []
        reopened: list[str] = []
        for entry in self._many("agent_loop/guard"):
            guidance: Guidance = self._tracer.call(entry, turn, self._ctx)
            feedback.append(guidance.feedback)
            reopened.extend(guidance.reopen)
            if turn.stage == "proposed":
                held = {index for index in guidance.hold if 0 <= index < len(turn.reply.commands)}
                turn = dataclasses.replace(turn, held=tuple(sorted(held.union(turn.held))))
        if reopened:
            self._reopened_in = turn.number
            self._ctx.state.pending_completion = False
        return turn, _join(feedback), tuple(dict.fromkeys(reopened))

    def execute(self, turn: Turn) -> Turn:
        routed: list[Routed] = []
        for index, command in enumerate(turn.reply.commands):
            if index not in turn.held:
                routed.append(self._one("tools/route", command))
        return dataclasses.replace(turn, routed=tuple(routed))

    def observe(self, turn: Turn) -> Turn:
        snapshot, text = self._look(turn.routed)
        observed = dataclasses.replace(turn, stage="observed", observation=text, snapshot=snapshot)
        self._ctx.state.turns.append(observed)
        return observed

    def _look(self, routed: tuple[Routed, ...]) -> tuple[Snapshot, str]:
        """What the agent is shown, at the start as after every turn: capture → refine* → limit. Helpers' answers come
        before the terminal's text and are not refined: they are not terminal output."""
        snapshot: Snapshot = self._one("observation/capture")
        text = snapshot.text
        for entry in self._many("observation/refine"):
            text = self._tracer.call(entry, text, self._ctx)
        return snapshot, clean(self._one("observation/limit", _join([*map(_answer, routed), text])))

    def decide(self, turn: Turn) -> Decision:
        advice: tuple[Advice, ...] = tuple(
            self._tracer.call(entry, turn, self._ctx) for entry in self._many("completion/check")
        )
        decision: Decision = self._one("completion/decide", turn, advice)
        claimed = turn.reply.complete and self._reopened_in != turn.number
        self._ctx.state.pending_completion = claimed and not decision.stop
        return decision

    def retained(self) -> str:
        return _join([self._tracer.call(entry, self._ctx) for entry in self._many("context/retain")])

    # ----------------------------------------------------------------------------------------------------- calling

    def _many(self, point: str) -> tuple[Function, ...]:
        return self._active.get(point, ())

    def _one(self, point: str, *args: Any) -> Any:
        return self._tracer.call(self._active[point][0], *args, self._ctx)


def _answer(routed: Routed) -> str:
    if not routed.helper and not routed.error:
        return ""
    error = f"ERROR: {routed.error}" if routed.error else ""
    return f"[{routed.helper or 'keystrokes'}] " + _join([routed.output, error])


def _join(parts: list[str]) -> str:
    """The parts that are not blank, an empty line between them."""
    return "\n\n".join(part for part in parts if part.strip())
