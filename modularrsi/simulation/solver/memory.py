"""What the messages show to have happened: the solver has no other memory.

Each of its replies carries a mark ("(step 3 of 7: do)"), and a hand-over that it writes says which steps are done and
what was found. What a harness drops from the history is forgotten.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from modularrsi.gateway.messages import ChatMessage
from modularrsi.simulation.solver.forms import Form
from modularrsi.simulation.solver.reading import Signs, complaint, names_as_open, signs
from modularrsi.simulation.solver.walkthrough import Step, Walkthrough

MARK = re.compile(r"\(step (\d+) of \d+: ([a-z]+)\)")
_DONE = re.compile(r"Done so far: steps? ([\d, ]+)of \d+")
_FOUND = re.compile(r"Found: (\w+) = (\S+?)\.?(?=\s|$)")
HANDOVER = "[hand-over]"

MOST_TYPOS = 5
_FREE = {"poll": 0, "typo": 1, "look": 1, "narrow": 1, "redo": 1, "clear": 1, "claim": 2, "wait": 10}
"""How often a step can be met with this kind of reply before another one counts as wasted."""


def mark(number: int, total: int, kind: str) -> str:
    return f"(step {number} of {total}: {kind})"


@dataclass(slots=True)
class Memory:
    """counts         (step, kind) → how often; the kinds are those of `policy.Move`
    done           steps that are believed to be done
    found          what looks have shown, by name
    seen           looks whose needed text was shown, or told in a hand-over
    last           (step, kind) of the last reply that was used; (0, "") = none
    streak         replies in a row, up to now, that could not be read
    wasted         turns that brought nothing
    warned         steps sent beside a draft, when it was said that there was more than one text
    asked_sure     whether it was asked, after a claim of completion, if the task is really done
    named          steps that some prompt has called open
    since_handover texts since the context was handed over; "" = it was not
    """

    counts: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])
    done: set[int] = field(default_factory=set[int])
    found: dict[str, str] = field(default_factory=dict[str, str])
    seen: set[int] = field(default_factory=set[int])
    last: tuple[int, str] = (0, "")
    replies: int = 0
    streak: int = 0
    wasted: int = 0
    warned: set[int] = field(default_factory=set[int])
    asked_sure: bool = False
    named: set[int] = field(default_factory=set[int])
    since_handover: str = ""


def recall(messages: Sequence[ChatMessage], walk: Walkthrough, form: Form) -> Memory:
    """Go through the messages once, oldest first."""
    memory = Memory()
    for index, message in enumerate(messages):
        _take_notes(memory, message.content)
        if memory.since_handover:
            memory.since_handover += "\n" + message.content
        if message.role == "assistant":
            after = messages[index + 1].content if index + 1 < len(messages) else ""
            _own(memory, message.content, after, form)
        elif index:
            _shown(memory, message.content, walk)
    memory.seen |= {step.number for step in walk.steps if step.needs and _told(step, memory)}
    return memory


def _take_notes(memory: Memory, text: str) -> None:
    """What a hand-over of our own says, wherever it was put."""
    if HANDOVER in text and not memory.since_handover:
        memory.since_handover = text
    for numbers in _DONE.findall(text):
        memory.done |= {int(number) for number in re.findall(r"\d+", numbers)}
    memory.found.update(_FOUND.findall(text))


def _own(memory: Memory, text: str, after: str, form: Form) -> None:
    marks = MARK.findall(text)
    if not marks:
        return
    memory.replies += 1
    if complaint(after, form):
        memory.streak += 1
        memory.wasted += 1
        return
    memory.streak = 0
    number, kind = int(marks[-1][0]), marks[-1][1]
    _count(memory, number, kind)
    if kind == "typo":
        if memory.counts[number, kind] >= MOST_TYPOS:
            memory.done.add(number)
    elif kind == "claim":
        memory.asked_sure |= signs(after, form).asked_sure
    elif kind == "twice":
        _twice(memory, number, signs(after, form))
    elif kind in ("do", "redo", "unended"):
        memory.done.add(number)
        memory.warned.discard(number)


def _twice(memory: Memory, number: int, told: Signs) -> None:
    """Done, as it seems, unless it is said that just this part was left out."""
    if not told.left_out:
        memory.done.add(number)
    if told.extra_text:
        memory.warned.add(number)


def _count(memory: Memory, number: int, kind: str) -> None:
    memory.last = (number, kind)
    memory.counts[number, kind] += 1
    if kind in _FREE and memory.counts[number, kind] > _FREE[kind]:
        memory.wasted += 1


def _shown(memory: Memory, text: str, walk: Walkthrough) -> None:
    for step in walk.steps:
        if step.needs and (found := step.finds(text)) is not None:
            memory.found = {**found, **memory.found}
            memory.seen.add(step.number)
        if step.requirement and names_as_open(text, step):
            memory.named.add(step.number)


def _told(step: Step, memory: Memory) -> bool:
    """Whether all that a look is for is known, from wherever."""
    names = step.finds_names
    return bool(names) and all(name in memory.found for name in names)


def notes(memory: Memory, walk: Walkthrough) -> str:
    """The lines of a hand-over that `recall` reads again."""
    done = ", ".join(map(str, sorted(memory.done)))
    lines = [HANDOVER, f"Done so far: steps {done} of {len(walk.steps)}." if done else "Nothing is done yet."]
    return "\n".join([*lines, *(f"Found: {name} = {value}." for name, value in memory.found.items())])
