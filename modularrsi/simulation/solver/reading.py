"""What the solver reads in what it is shown: the offers of the first prompt, and the signs in the last one.

The words that it reacts to are listed in `docs/simulation.md`. A harness earns its reward by using such words truly:
the solver takes them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from modularrsi.gateway.messages import ChatMessage
from modularrsi.simulation.solver.forms import Form, shows, taught
from modularrsi.simulation.solver.walkthrough import Step

_COMPLAINT = re.compile(
    r"\b(repl(y|ies)|response|answer|json|message)\b[^\n]{0,80}?\b(could not be|cannot be|was not|is not|was cut off|"
    r"(is|was) (invalid|malformed|unreadable))|nothing of it was run|none of its (actions|commands)|"
    r"\b(invalid|malformed|unreadable) (reply|response|json|answer|format)|pars(ing|e) error",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\bline \d|\bcolumn\b|\bchar(acter)?\b|\bmissing\b|\bfields?\b|\bquotes?\b|\bcomma\b|\bdelimiter\b|\bexpecting\b|"
    r"\bcould be found\b|\bneeds\b|\bmust be\b|\btag\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"still open|not met|missing|not exist|no evidence|unmet|pending|not done|incomplete|not (yet )?(there|verified)",
    re.IGNORECASE,
)
_IDLE = re.compile(
    r"\bidle\b|nothing (is running|runs)|has finished|no program (is running|runs)|waits for (a|the next) command",
    re.IGNORECASE,
)
_BUSY = re.compile(r"\bbusy\b|\bstill running\b|a program (is running|runs)", re.IGNORECASE)
_REPEATED = re.compile(
    r"same (command|keystrokes)|sent before|times in a row|keeps failing|\brepeat(ed|ing)?\b", re.IGNORECASE
)
_REPLY = r"(object|repl(y|ies)|response|answer)s?"
_LEFT_OUT = re.compile(
    rf"only the (first|last) .{{0,60}}(was|were) (used|run|read)|{_REPLY} .{{0,60}}(was|were) (ignored|left out|"
    rf"not (used|run|read))|(ignored|left out)\b.{{0,60}}{_REPLY}",
    re.IGNORECASE,
)
_CUT = re.compile(r"left out|\bcut\b|omitted|truncated|not shown", re.IGNORECASE)
_EXTRA_TEXT = re.compile(r"text (after|before) the|extra (text|object)|more than one (object|reply)", re.IGNORECASE)
_SURE = re.compile(r"\bare you sure\b|\breally (done|complete|finished)\b|\bconfirm(ed)?\b", re.IGNORECASE)
_NOT_RUN = re.compile(r"press Enter\b|typed,? (but|and) not run|\b(was|is|were) not run\b|not been run", re.IGNORECASE)
_PLACE_OF_REST = re.compile(
    r"(?:rest|full|whole|complete|everything|all of it)\b[^\n]{0,120}?(?<![\w.])(/[\w./+@-]*[\w+@-])", re.IGNORECASE
)
_UNFINISHED = re.compile(r"waiting for the rest of (your|the) input|still open\. Finish it", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:(?<![\w.-])[\w.-]++@[\w.-]++:[^#$\n]{0,200}+|^[/~][^#$\n ]{0,200}+ |^(?:bash|sh)-[\d.]{1,9}+)[#$]"
    r"(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
"""A shell's prompt and what is typed after it. It can follow output that ended without a line break."""
_KEPT = 4096
"""Texts whose reading is remembered: each turn brings the whole conversation again, and only its end is new."""
_LIST_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)]|\[.?\])\s+(.+)$", re.MULTILINE)
_HELPER = re.compile(r"^\s*-\s*(\w+):", re.MULTILINE)

Complaint = Literal["", "vague", "named", "shown"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What the harness teaches and offers: the form of a reply, and the names of helper commands."""

    form: Form
    helpers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Signs:
    """What the last prompt says.

    complaint     the last reply was not used: how well it is said why
    finished      True: the shell waits for a command; False: something runs; None: cannot be told
    told_idle, told_busy   the harness says so in words
    repeated      it says that a command was sent before
    not_run       it says that a line was typed and not run
    extra_text    it says that there was text beside the reply
    asked_sure    it asks whether the task is really done
    left_out      it says that a part of the reply was not used
    unfinished    the shell waits for the rest of a quote or heredoc
    rest_in       the file in which a cut observation is whole; "" = none named
    not_found     the shell did not know a command
    """

    text: str
    complaint: Complaint
    finished: bool | None
    told_idle: bool
    told_busy: bool
    repeated: bool
    not_run: bool
    extra_text: bool
    asked_sure: bool
    left_out: bool
    unfinished: bool
    rest_in: str
    not_found: bool


def offer(messages: Sequence[ChatMessage]) -> Offer | None:
    """From the first message that teaches a form; None when there is none."""
    for message in messages:
        form = taught(message.content) if message.role != "assistant" else None
        if form is not None:
            block = message.content.partition("you can use these commands")[2].partition("\n\n")[0]
            return Offer(form, frozenset(_HELPER.findall(block)))
    return None


@lru_cache(_KEPT)
def signs(text: str, form: Form) -> Signs:
    typed = last_typed(text)
    told_busy = bool(_BUSY.search(text))
    told_idle = bool(_IDLE.search(text)) and not told_busy
    back = None if typed is None else not typed
    return Signs(
        text=text,
        complaint=complaint(text, form),
        finished=False if told_busy else True if told_idle else back,
        told_idle=told_idle,
        told_busy=told_busy,
        repeated=bool(_REPEATED.search(text)),
        not_run=bool(_NOT_RUN.search(text)),
        extra_text=bool(_EXTRA_TEXT.search(text)),
        asked_sure=bool(_SURE.search(text)),
        left_out=bool(_LEFT_OUT.search(text)),
        unfinished=bool(_UNFINISHED.search(text)),
        rest_in=_rest_in(text),
        not_found="command not found" in text or ": not found" in text,
    )


def last_typed(text: str) -> str | None:
    """What stands after the last prompt; "" for one that waits, None where no prompt is seen."""
    prompts = list(_PROMPT.finditer(text))
    if not prompts:
        return None
    rest: str = prompts[-1]["rest"]
    while inner := _PROMPT.search(rest):
        rest = inner["rest"]
    return rest.strip()


@lru_cache(_KEPT)
def complaint(text: str, form: Form) -> Complaint:
    """Only the beginning counts: a terminal may print such words too."""
    head = text.lstrip()[:600]
    match = _COMPLAINT.search(head)
    if match is None or _PROMPT.search(head[: match.start()]):
        return ""
    if shows(form, text):
        return "shown"
    return "named" if _NAMED.search(head[match.end() :]) else "vague"


def names_as_open(text: str, step: Step) -> bool:
    """Whether some line says that this step's requirement is open."""
    return any(_names(line, step) for line in _open_lines(text))


@lru_cache(_KEPT)
def _open_lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if _OPEN.search(line))


def lists(text: str, step: Step) -> bool:
    """Whether the step's requirement stands in a list, on a line of its own."""
    return any(_names(item, step) for item in _LIST_ITEM.findall(text))


def _names(line: str, step: Step) -> bool:
    return any(re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-]|\.\w)", line) for name in step.names)


def _rest_in(text: str) -> str:
    for line in text.splitlines():
        match = _PLACE_OF_REST.search(line) if _CUT.search(line) else None
        if match:
            return match[1]
    return ""
