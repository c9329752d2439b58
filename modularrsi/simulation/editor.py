"""The editor: a change of one function, from its catalogue.

It reads lines `module: M`, `function: M/P/NAME`, `signals: a, b`, the function's source, and, after a refusal, lines
`refused by CHECK: reason` with `tried: CANDIDATE`. It answers with whole files and what is to be active:

    <rationale>…</rationale>
    <candidate>NAME</candidate>
    <file path="modules/M/P/NAME.py">
    …
    </file>
    <activate point="M/P">NAME</activate>

It does not know what a candidate is worth. A function of the seed library that was made worse it can also mend: then it
proposes the seed's own source. Error rates: off_target (a candidate for something else), ignores_verdict (the same
again after a refusal), unreadable. `weights` make candidates likelier, or impossible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.loader import read_tree, seed_library_path
from modularrsi.simulation.candidates import Candidate, of_module
from modularrsi.simulation.chance import Chance
from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.replies import Role, field
from modularrsi.simulation.settings import Simulation

MEND = "mend"
"""The candidate that is the seed's own source."""


class Editor(Role):
    name = "editor"

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._weights = simulation.weights
        self._seed_sources = {path: data.decode() for path, data in read_tree(seed_library_path()).items()}

    def __call__(self, question: Question) -> Answer:
        text, chance = question.text, self.chance(question)
        possible = self._possible(text, chance)
        if not possible:
            return Answer("<rationale>There is nothing that I would change.</rationale>")
        chosen = chance.weighted([(one, self._weights.get(one.name, 1.0)) for one in possible], "candidate")
        written = _written(chosen)
        return Answer(written[: len(written) // 2] if self.errs(chance, "unreadable") else written)

    def _possible(self, text: str, chance: Chance) -> list[Candidate]:
        """What fits the request and has not been tried; what does not fit when the editor errs."""
        module = field(text, "module") or field(text, "function").partition("/")[0]
        weighed = [one for one in of_module(module) if self._weights.get(one.name, 1.0) > 0]
        mend = self._mend(text, field(text, "function"))
        wanted = set(re.split(r"[,\s]+", field(text, "signals")))
        fitting = [*mend, *(one for one in weighed if wanted & set(one.answers))] or _at_point(weighed, text)
        if self.errs(chance, "off_target"):
            return [one for one in weighed if one not in fitting] or weighed
        tried = set(re.findall(r"tried:\s*`?(\w+)", text))
        if not tried:
            return fitting
        if self.errs(chance, "ignores_verdict"):
            return [one for one in weighed if one.name in tried] or fitting
        return _untried(fitting, tried) or _untried(weighed, tried)

    def _mend(self, text: str, function: str) -> Sequence[Candidate]:
        """The seed's source of the function, where the prompt shows another one."""
        path = f"modules/{function}.py"
        source = self._seed_sources.get(path)
        if source is None or self._weights.get(MEND, 1.0) <= 0 or source.strip() in text:
            return ()
        module = function.partition("/")[0]
        return (Candidate(MEND, module, {path: source}, {}, (), f"{function} does again what it is meant to do."),)


def _untried(candidates: Sequence[Candidate], tried: set[str]) -> list[Candidate]:
    return [one for one in candidates if one.name not in tried]


def _at_point(candidates: Sequence[Candidate], text: str) -> list[Candidate]:
    point = field(text, "function").rpartition("/")[0]
    return [one for one in candidates if point in one.activates] or list(candidates)


def _written(candidate: Candidate) -> str:
    parts = [f"<rationale>{candidate.says}</rationale>", f"<candidate>{candidate.name}</candidate>"]
    parts += [f'<file path="{path}">\n{source}</file>' for path, source in candidate.files.items()]
    for point, names in candidate.activates.items():
        parts.append(f'<activate point="{point}">{", ".join(names)}</activate>')
    return "\n".join(parts)
