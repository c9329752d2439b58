"""Candidates of the simulated editor's catalogue, in a kernel over the fakes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.composition import Composition
from harness.loader import Library, load_library, seed_library_path
from harness.points import POINTS
from harness.registry import Function
from harness.scripted import Answer, Effect, ScriptedContext, ScriptedModel, ScriptedSandbox, ScriptedTerminal
from harness.types import Limits, Message, Task
from modularrsi.instrument.libraries import with_candidates
from modularrsi.simulation.candidates import candidates

TASK = Task("Write /app/report.txt.", workdir="/app")


@cache
def grown(name: str) -> Library:
    """The seed library with one candidate in it. Raises LibraryError. Never for hostile ones: loading runs code."""
    with tempfile.TemporaryDirectory() as folder:
        return load_library(with_candidates(Path(folder) / "library", [candidates()[name]]))


def entry(name: str) -> Function:
    """The candidate's own function."""
    (path,) = candidates()[name].files
    return grown(name).registry.get(path.removeprefix("modules/").removesuffix(".py"))


def composition(name: str) -> Composition:
    """The seed's, with the candidate's functions active."""
    seed = Composition.brought(seed_library_path())
    assert seed is not None
    chosen = candidates()[name].activates
    many = {point: (*seed.functions.get(point, ()), *names) for point, names in chosen.items()}
    one = {point: names for point, names in chosen.items() if POINTS[point].arity == "one"}
    return Composition({**seed.functions, **many, **one})


def kernel(
    name: str,
    answers: Iterable[Answer | Callable[[Sequence[Message]], Answer]] = (),
    effects: Iterable[Effect | str] = (),
    *,
    sandbox: ScriptedSandbox | None = None,
    limits: Limits | None = None,
    task: Task = TASK,
    instead: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[ScriptedContext, ScriptedModel, ScriptedTerminal]:
    """The seed's composition with the candidate active (and `instead` at some points)."""
    functions = {**composition(name).functions, **(instead or {})}
    model, terminal = ScriptedModel(answers), ScriptedTerminal(effects)
    active = Composition(functions).resolve(grown(name).registry)
    ctx = ScriptedContext(active, model, terminal, sandbox or ScriptedSandbox(), task, limits or Limits())
    return ctx, model, terminal


def says(*keys: str, complete: bool = False) -> str:
    """A reply in the seed's JSON."""
    commands = [{"keystrokes": text, "duration": 0.1} for text in keys]
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete})


def asked(model: ScriptedModel, number: int) -> str:
    """The last message of a request, counted from 1."""
    return model.requests[number - 1].messages[-1].content
