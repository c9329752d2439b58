"""How the roles other than the solver answer, readably and not."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from modularrsi.simulation.chance import Chance
from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.settings import Simulation

_FUNCTION_LINE = re.compile(
    r"^[ \t]*[-*][ \t]*[`*]*([a-z_]+/[a-z_]+/[A-Za-z_]\w*)[`*]*[ \t]*:?[ \t]*(.*)$", re.MULTILINE
)
"""No two neighbouring parts that match the same characters: prompts hold terminal output, and a line of 100,000
stars must not cost the square of that."""


class Role:
    """What the policies share: error rates, and luck that depends on the question's place and text alone. Another call
    with the same words has luck of its own."""

    name: str

    def __init__(self, simulation: Simulation) -> None:
        self._rates: Mapping[str, float] = simulation.errors[self.name]
        self._seed = simulation.seed

    def chance(self, question: Question) -> Chance:
        digest = hashlib.sha256(question.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return Chance(self._seed).at(self.name, question.scope, question.ordinal, digest)

    def errs(self, chance: Chance, kind: str) -> bool:
        return chance.happens(self._rates[kind], kind)

    def answer(self, chance: Chance, fields: Mapping[str, Any]) -> Answer:
        """One JSON object; as a role that errs, prose or half of it."""
        text = json.dumps(fields, ensure_ascii=False, indent=1)
        if not self.errs(chance, "unreadable"):
            return Answer(text)
        half = text[: len(text) // 2]
        return Answer(chance.pick((half, "On the whole I would say that it depends.", "```\n" + half), "unreadable as"))


def field(text: str, name: str) -> str:
    """The value of a line `name: value`; "" when there is none."""
    match = re.search(rf"^[ \t>*#-]*{re.escape(name)}\**[ \t]*:[ \t]*\**[ \t]*`?([^`\n*]*)", text, re.M | re.I)
    return match[1].strip() if match else ""


def functions(text: str) -> dict[str, str]:
    """Lines `- module/point/name: describes` of a prompt, in order."""
    return {match[1]: match[2].strip() for match in _FUNCTION_LINE.finditer(text)}
