"""Each planted fault does what it says in a whole kernel run, where the seed does not; two together both do."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.candidates import TASK, asked, says

from harness import Advice, Context, Turn, function, tokens
from harness.composition import Composition
from harness.loader import Library, load_library, seed_library_path
from harness.registry import tagged
from harness.scripted import Answer, Effect, ScriptedContext, ScriptedModel, ScriptedSandbox, ScriptedTerminal
from harness.types import Ending, Limits, Message
from modularrsi.instrument.defects import defects, plant

PROSE = "I run ls."
ODD = f"Here it is:\n{says('ls')}"
"""A reply that is used, with a warning or two."""


@dataclass
class Ran:
    ending: Ending
    ctx: ScriptedContext
    model: ScriptedModel
    terminal: ScriptedTerminal

    def told(self, number: int = 2) -> str:
        return asked(self.model, number)


def run(
    library: Library,
    answers: Iterable[Answer | Callable[[Sequence[Message]], Answer]],
    effects: Iterable[Effect | str] = (),
    limits: Limits | None = None,
    checks: Sequence[Callable[..., Advice]] = (),
) -> Ran:
    """The seed's composition (which planting leaves as it is) with `checks` beside its own, to the end."""
    composition = Composition.brought(seed_library_path())
    assert composition is not None
    active = dict(composition.resolve(library.registry))
    active["completion/check"] = (*active["completion/check"], *map(tagged, checks))
    model, terminal = ScriptedModel(answers), ScriptedTerminal(effects)
    ctx = ScriptedContext(active, model, terminal, ScriptedSandbox(), TASK, limits or Limits(max_turns=2))
    return Ran(ctx.drive(), ctx, model, terminal)


# ---------------------------------------------------------------------------------------------------------- agent_loop


def vague_complaint(library: Library) -> bool:
    ran = run(library, [PROSE, says()])
    return ran.ctx.run.grammar().parse(PROSE).error not in ran.told()


def impatient_recovery(library: Library) -> bool:
    ran = run(library, [PROSE, PROSE, says()], limits=Limits(max_turns=3))
    return ran.ending.reason == "faults" and len(ran.model.requests) == 2


def silent_warnings(library: Library) -> bool:
    ran = run(library, [ODD, says()])
    (turn, _) = ran.ctx.state.turns
    assert 1 <= len(turn.reply.warnings) <= 2
    return turn.reply.warnings[0] not in ran.told()


def deaf_drive(library: Library) -> bool:
    ran = run(library, [ODD, says()])
    assert "agent_loop/guard" in {f"{call['module']}/{call['point']}" for call in ran.ctx.trace}
    return ran.ctx.state.turns[0].reply.warnings[0] not in ran.told()


def hasty_drive(library: Library) -> bool:
    ran = run(library, [says(complete=True), says()])
    return ran.ending.reason == "complete" and "not confirmed yet" in ran.ending.detail


# --------------------------------------------------------------------------------------------------------- observation

LONG = "\n".join(f"line {number:05}" for number in range(2_000))
"""22,000 bytes. Of 10,000 the seed shows lines up to about 450, and the last 450."""


def narrow_limit(library: Library) -> bool:
    within = "\n".join(LONG.split("\n")[:700])
    told = run(library, [says("cat x\n"), says()], [within]).told()
    assert "line 00100" in told
    assert "line 00699" in told
    return "line 00350" not in told


def headless_limit(library: Library) -> bool:
    told = run(library, [says("make\n"), says()], [f"{LONG}\n$ "]).told()
    assert "line 00100" in told
    return "line 01999" not in told and "$" not in told


def screen_only(library: Library) -> bool:
    hundred = "\n".join(LONG.split("\n")[:100])
    told = run(library, [says("make\n"), says()], [hundred]).told()
    assert "line 00099" in told
    return "line 00010" not in told


def eaten_lines(library: Library) -> bool:
    told = run(library, [says("sum\n"), says()], ["one\nsum: 42\nagent@box:/app$ "]).told()
    assert "one\n" in told
    assert "agent@box:/app$" in told
    return "42" not in told


# --------------------------------------------------------------------------------------------------------------- tools


def lost_command(library: Library) -> bool:
    ran = run(library, [says("one\n", "two\n", "three\n"), says("alone\n")])
    assert ran.terminal.typed.startswith("one\ntwo\n")
    assert ran.terminal.typed.endswith("alone\n")
    return "three" not in ran.terminal.typed


def short_waits(library: Library) -> bool:
    ran = run(library, [says("make\n").replace('"duration": 0.1', '"duration": 5.0'), says()])
    ((_, wait),) = ran.terminal.sent
    return wait == 0.05


def first_line_only(library: Library) -> bool:
    ran = run(library, [says("cat > x <<'E'\none\ntwo\nE\n"), says("ls\n")])
    assert ran.terminal.typed.endswith("ls\n")
    return ran.terminal.typed == "cat > x <<'E'\nls\n"


# ------------------------------------------------------------------------------------------------------------- context


def replied(messages: Sequence[Message]) -> str:
    last = messages[-1].content
    asked_for = {"takes over from you": "built it", "You take over": "the questions", "next agent": "the answers"}
    return next((text for words, text in asked_for.items() if words in last), says("make\n"))


def handed_over(library: Library) -> tuple[Ran, int]:
    """A run that is compressed in a window of 8,000 tokens, and where (the first request for a summary)."""
    output = ["one more line of text\n" * 60] * 20
    ran = run(library, [replied] * 40, output, Limits(context_tokens=8_000, max_turns=20))
    return ran, [request.purpose for request in ran.model.requests].index("summary")


def early_compression(library: Library) -> bool:
    ran, place = handed_over(library)
    return tokens.count(ran.model.requests[place].messages) < 4_000


def empty_handover(library: Library) -> bool:
    ran, place = handed_over(library)
    after = ran.model.requests[place + 3]
    assert after.purpose == "turn"
    handed = "\n".join(message.content for message in after.messages)
    assert "the questions" in handed
    return "built it" not in handed and "the answers" not in handed


# ---------------------------------------------------------------------------------------------------------- completion


@function(module="completion", point="check", describes="Objects.")
def objects(turn: Turn, ctx: Context) -> Advice:
    return Advice(False, "the report is missing")


def one_claim(library: Library) -> bool:
    ran = run(library, [says(complete=True), says()])
    return ran.ending.reason == "complete" and "not confirmed" not in ran.ending.detail


def late_claim(library: Library) -> bool:
    ran = run(library, [says(complete=True)] * 30, limits=Limits(max_turns=30))
    assert ran.ending.reason == "complete"
    return len(ran.model.requests) == 20


def overruled_objection(library: Library) -> bool:
    ran = run(library, [says(complete=True)] * 4, limits=Limits(max_turns=4), checks=[objects])
    return ran.ending.reason == "complete"


def unasked(library: Library) -> bool:
    ran = run(library, [says(complete=True), says()])
    return ran.ctx.run.grammar().confirm not in ran.told() and "Not taken as complete" not in ran.told()


SHOWN: dict[str, Callable[[Library], bool]] = {
    shown.__name__: shown
    for shown in (
        vague_complaint, impatient_recovery, silent_warnings, deaf_drive, hasty_drive, narrow_limit, headless_limit,
        screen_only, eaten_lines, lost_command, short_waits, first_line_only, early_compression, empty_handover,
        one_claim, late_claim, overruled_objection, unasked,
    )
}  # fmt: skip
"""Defect with one fault → whether a library shows it."""


@cache
def faulty(name: str) -> Library:
    with tempfile.TemporaryDirectory() as folder:
        return load_library(plant(name, Path(folder) / "library"))


def test_every_single_fault_has_its_run() -> None:
    assert {part for name in defects() for part in name.split("+")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_the_seed_does_not_do_it(name: str) -> None:
    assert not SHOWN[name](load_library(seed_library_path()))


@pytest.mark.parametrize("name", defects())
def test_it_does_what_it_says(name: str) -> None:
    assert [part for part in name.split("+") if not SHOWN[part](faulty(name))] == []
