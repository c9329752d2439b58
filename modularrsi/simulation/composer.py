"""The composer: a few functions for one task, by the words that their descriptions share with its instruction.

It reads the instruction (after `instruction:`, or the whole prompt) and lines `- module/point/name: describes`. It
answers `{"functions": ["module/point/name", …], "reason": "…"}`. Error rates: missed (a fitting one is left out),
needless (one more is chosen), unknown_function (one that is not on the list), unreadable.
"""

from __future__ import annotations

import re

from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.replies import Role, functions

MOST = 8

_WORD = re.compile(r"[a-z]{4,}")
_COMMON = frozenset(
    _WORD.findall(
        "that this with from have each when then them they what which will your into once only does more than after "
        "before task tasks agent command commands file files line lines text write show shown says tell reply"
    )
)


class Composer(Role):
    name = "composer"

    def __call__(self, question: Question) -> Answer:
        text, chance = question.text, self.chance(question)
        offered = functions(text)
        wanted = _words(text.partition("instruction:")[2] or _without_list(text))
        scores = {key: len(_words(f"{key} {describes}") & wanted) for key, describes in offered.items()}
        fitting = sorted((key for key in offered if scores[key]), key=lambda key: (-scores[key], key))[:MOST]
        if fitting and self.errs(chance, "missed"):
            fitting.remove(chance.pick(fitting, "left out"))
        rest = [key for key in offered if key not in fitting]
        if rest and self.errs(chance, "needless"):
            fitting.append(chance.pick(rest, "one more"))
        if self.errs(chance, "unknown_function"):
            fitting.append("tools/command/not_there")
        return self.answer(chance, {"functions": fitting, "reason": "their descriptions fit the instruction"})


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower().replace("_", " "))) - _COMMON


def _without_list(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("-", "*")))
