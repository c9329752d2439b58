"""The editor's catalogue: what it can propose, as data (`catalogue/catalogue.toml` and the sources beside it).

Whether a candidate is any good is not in it. That is known to `modularrsi.instrument` alone, which measures the gates.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal.

    files      path in a library → source; empty for one that only activates what is there
    activates  `module/point` → names of functions (at a point for one: it replaces; at a point for many: it is added)
    answers    signals that it is meant for
    says       what its author says of it
    """

    name: str
    module: str
    files: Mapping[str, str]
    activates: Mapping[str, tuple[str, ...]]
    answers: tuple[str, ...]
    says: str


@cache
def candidates() -> Mapping[str, Candidate]:
    """All of them by name, in the order of the catalogue."""
    folder = resources.files("modularrsi.simulation") / "catalogue"
    table = tomllib.loads((folder / "catalogue.toml").read_text(encoding="utf-8"))
    return {name: _candidate(name, entry, folder) for name, entry in table.items()}


def of_module(module: str) -> list[Candidate]:
    return [candidate for candidate in candidates().values() if candidate.module == module]


def _candidate(name: str, entry: Mapping[str, Any], folder: Any) -> Candidate:
    module, point = str(entry["point"]).split("/")
    files: dict[str, str] = {}
    if entry.get("source", True):
        source = (folder / module / f"{name}.py.txt").read_text(encoding="utf-8")
        files[f"modules/{module}/{point}/{name}.py"] = source
    activates = cast(Mapping[str, list[str]], entry.get("activates", {f"{module}/{point}": [name]}))
    return Candidate(
        name, module, files, {where: tuple(names) for where, names in activates.items()}, tuple(entry["answers"]),
        str(entry["says"]),
    )  # fmt: skip
