"""Replies to requests that are no turn: summaries, questions, answers. They say what is done and what was found, so
that a harness that hands them on whole loses nothing, and one that cuts them does."""

from __future__ import annotations

import re

from modularrsi.simulation.question import Question
from modularrsi.simulation.solver.memory import HANDOVER, Memory, notes
from modularrsi.simulation.solver.walkthrough import Walkthrough

_PURPOSES = frozenset({"summary", "questions", "answers", "short_summary"})
_ASKS = re.compile(r"summar(y|ise|ize)|hand(s|ed)? over|takes? over|next agent", re.IGNORECASE)
_PROMPT = re.compile(r"^[\w.-]+@[\w.-]+:[^#$\n]*[#$]\s*$", re.MULTILINE)


def wanted(question: Question) -> bool:
    """Whether this asks for a hand-over: by its label, or, from a caller without labels, by its words."""
    if question.purpose:
        return question.purpose != "turn"
    return len(question.messages) > 1 and bool(_ASKS.search(question.last)) and not _PROMPT.search(question.last)


def hand_over(question: Question, memory: Memory, walk: Walkthrough) -> str:
    if question.purpose == "questions":
        return _questions()
    done = ", ".join(step.does for step in walk.steps if step.number in memory.done) or "nothing yet"
    if question.purpose in _PURPOSES and question.purpose != "summary":
        return f"{notes(memory, walk)}\nDone: {done}."
    return (
        f"{notes(memory, walk)}\n1. Actions: {done}.\n2. Findings: as above.\n3. Difficulties: none that are left.\n"
        "4. Status: what is not named above is not done."
    )


def _questions() -> str:
    asked = (
        "Which steps are done?", "What was found that later steps need?", "Which files were written?",
        "Does anything still run?", "What comes next?",
    )  # fmt: skip
    return "\n".join([HANDOVER, *(f"{number}. {text}" for number, text in enumerate(asked, 1))])
