"""The analyst: which function of one module is behind a failure, by rule from the evidence in the prompt.

It reads, in any order, lines `module: M` and `group: KIND`, signals as `- SIGNAL (steps 3, 4): text`, and the module's
functions as `- module/point/name: describes`. It answers with one JSON object:

    {"verdict": true, "module": M, "point": P, "function": "M/P/NAME", "divergence": "…", "steps": [3, 4],
     "counterfactual": "…", "suggestion": "…", "signals": ["…"], "confidence": 0.8}
    {"verdict": false, "module": M, "other_module": "…" | null, "reason": "…"}

Error rates: missed (a culprit is not seen), wrong_function, wrong_module (another module's signal is taken for this
one's), unreadable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from modularrsi.signals import SIGNALS, Signal
from modularrsi.simulation.chance import Chance
from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.replies import Role, field, functions

_LINE = re.compile(
    r"^[ \t]*[-*][ \t]*[`*]*([a-z_]+)[`*]*[ \t]*(?:\((?:turns?|steps?)[ \t]*([\d, ]+)\))?[ \t]*:?[ \t]*(.*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A signal of the prompt, with the steps that it names."""

    signal: Signal
    steps: tuple[int, ...]
    text: str


class Analyst(Role):
    name = "analyst"

    def __call__(self, question: Question) -> Answer:
        text, chance = question.text, self.chance(question)
        module = field(text, "module")
        seen = signals_in(text)
        own = [item for item in seen if item.signal.module == module]
        others = [item for item in seen if item.signal.module != module]
        if own and self.errs(chance, "missed"):
            own = []
        elif not own and others and self.errs(chance, "wrong_module"):
            return self.answer(chance, self._finding(chance, module, others[0], text))
        if not own:
            return self.answer(chance, _innocent(module, others))
        return self.answer(chance, self._finding(chance, module, _strongest(own), text))

    def _finding(self, chance: Chance, module: str, seen: Seen, text: str) -> dict[str, object]:
        known = [key for key in functions(text) if key.startswith(f"{module}/")]
        function = _function_for(seen.signal, module, known)
        if self.errs(chance, "wrong_function") and (rest := [key for key in known if key != function]):
            function = chance.pick(rest, "another function")
        return {
            "verdict": True,
            "module": module,
            "point": function.rpartition("/")[0] or seen.signal.point,
            "function": function,
            "divergence": seen.text or seen.signal.means,
            "steps": list(seen.steps),
            "counterfactual": f"Without this the run would not have failed there: {seen.signal.means}.",
            "suggestion": f"Change {function} so that it does not happen: {seen.signal.name}.",
            "signals": [seen.signal.name],
            "confidence": round(0.5 + 0.4 * chance.draw("confidence"), 2),
        }


def signals_in(text: str) -> list[Seen]:
    """The known signals that a prompt lists, in order."""
    found: list[Seen] = []
    for match in _LINE.finditer(text):
        signal = SIGNALS.get(match[1])
        if signal is not None:
            steps = tuple(int(number) for number in re.findall(r"\d{1,9}", match[2] or ""))
            found.append(Seen(signal, steps, match[3].strip()[:300]))
    return found


def _strongest(seen: list[Seen]) -> Seen:
    """That with the most steps; the first of them."""
    return max(seen, key=lambda item: len(item.steps))


def _function_for(signal: Signal, module: str, known: list[str]) -> str:
    """The module's function at the signal's point, or else any of the module; a new one at that point when there is
    none to change."""
    at_point = [key for key in known if key.startswith(f"{signal.point}/")]
    if at_point:
        return at_point[0]
    return known[0] if known and signal.module != module else f"{signal.point}/new"


def _innocent(module: str, others: list[Seen]) -> dict[str, object]:
    other = others[0].signal.module if others else None
    reason = f"what is seen belongs to {other}" if other else "nothing in the evidence points to this module"
    return {"verdict": False, "module": module, "other_module": other, "reason": reason}
