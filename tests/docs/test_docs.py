"""What the documentation names exists, and its tables say what the code says."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from support.pages import PAGES, ROOT, blocks, code_of, inline_code, prose, rows, slug, table

from harness.points import POINTS
from harness.registry import Tag
from modularrsi.cli.app import app
from modularrsi.gateway.settings import ModelSettings
from modularrsi.instrument.defects import defects
from modularrsi.instrument.measure import TRIALS
from modularrsi.simulation.habits import HABITS
from modularrsi.simulation.settings import ERRORS, FAULTS

DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
IDS = [page.name for page in PAGES]

# Options of other programs that the prose names.
FOREIGN = {"--chmod"}


# ---------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
            assert anchor in map(slug, headings), f"{page.name}: {target}"


def test_every_page_is_reached_from_the_readme() -> None:
    linked = {target.partition("#")[0] for target in LINK.findall(prose(ROOT / "README.md"))}
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= linked


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_what_is_named_in_code_marks_exists(page: Path) -> None:
    for code in inline_code(page):
        if re.fullmatch(r"(harness|modularrsi)(\.\w+)+", code):
            assert resolved(code) is not None, f"{page.name}: {code}"
        elif re.fullmatch(r"(harness|modularrsi|docs|benchmarks|evolution_pool|tests/support)/[\w./-]*", code):
            assert (ROOT / code).exists(), f"{page.name}: {code}"


def resolved(name: str) -> Any:
    """The module, or the attribute of one, of that name; None when there is none."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found
    return None


def test_every_word_of_the_glossary_has_a_place_in_the_code() -> None:
    section = prose(DOCS / "concepts.md").partition("## Words")[2].partition("\n## ")[0]
    words = list(rows(section))
    assert len(words) >= 20
    for word, _, place in words:
        (code,) = code_of(place)
        assert resolved(code) is not None, f"{word}: {code}"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_options_exist(page: Path) -> None:
    known = set(options(typer.main.get_command(app)))
    commands = [line for block in blocks(page) for line in block.text.splitlines() if "modularrsi " in line]
    spoken = [code for code in inline_code(page) if code.startswith(("--", "modularrsi "))]
    for text in [*commands, *spoken]:
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", text):
            assert option in known | FOREIGN | {"--help"}, f"{page.name}: {option} in {text}"


def options(command: Any) -> Iterator[str]:
    """Of a command and of all commands below it."""
    for option in command.params:
        yield from (*option.opts, *option.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_toml_examples_are_toml(page: Path) -> None:
    for block in blocks(page):
        if block.language == "toml":
            tomllib.loads(block.text)


def test_the_layout_is_the_tree() -> None:
    (tree,) = [block.text for block in blocks(ROOT / "README.md") if "runs an agent: kernel" in block.text]
    parent = ""
    named: set[str] = set()
    for line in tree.splitlines():
        names = re.split(r" {2,}", line.strip())[:-1]
        for name in " ".join(names).split():
            path = f"{parent}{name}" if line.startswith(" ") else name
            assert (ROOT / path).exists(), path
            named.add(path)
        if not line.startswith(" "):
            parent = names[0]
    packages = {f"modularrsi/{path.parent.name}/" for path in (ROOT / "modularrsi").glob("*/__init__.py")}
    assert packages <= named, packages - named


# --------------------------------------------------------------------------------------------------------- tables


def test_points_are_those_of_the_kernel() -> None:
    section = prose(DOCS / "concepts.md").partition("## The points")[2].partition("\n## ")[0]
    told = {code_of(row[0])[0]: row[1] for row in rows(section)}
    assert told == {key: point.arity for key, point in POINTS.items()}


def test_fields_of_the_decorator() -> None:
    section = prose(DOCS / "writing-a-function.md").partition("## The decorator's fields")[2].partition("\n## ")[0]
    told = {name for row in rows(section) for name in code_of(row[0])}
    assert told == {entry.name for entry in fields(Tag)}


def test_fields_of_a_model() -> None:
    told = {name for row in table(DOCS / "models.md", "fields") for name in code_of(row[0])}
    assert told == {entry.name for entry in fields(ModelSettings)}


def test_habits_of_the_simulated_solver() -> None:
    told = {code_of(row[0])[0]: row[1:] for row in table(DOCS / "simulation.md", "habits")}
    assert told.keys() == HABITS.keys()
    for name, (probability, _, does, averted_by) in told.items():
        assert float(probability) == HABITS[name].probability
        assert (does, averted_by) == (HABITS[name].does, HABITS[name].averted_by)


def test_faults_of_the_simulator() -> None:
    told = {code_of(row[0])[0]: row[1] for row in table(DOCS / "simulation.md", "faults")}
    assert told == FAULTS


def test_error_rates_of_the_other_roles() -> None:
    told = {code_of(row[0])[0]: row[1] for row in table(DOCS / "simulation.md", "errors")}
    rates = {f"{role}.{kind}": rate for role, kinds in ERRORS.items() for kind, rate in kinds.items()}
    assert {name: float(rate) for name, rate in told.items()} == rates


def test_every_habit_is_in_the_measured_table() -> None:
    told = [code_of(row[0])[0] for row in table(DOCS / "simulation.md", "measured")]
    assert told == list(TRIALS) == list(HABITS)


def test_every_planted_defect_is_told() -> None:
    told = {code_of(row[0])[0]: (code_of(row[1])[0], row[2]) for row in table(DOCS / "simulation.md", "defects")}
    single = {name: defect.faults[0] for name, defect in defects().items() if "+" not in name}
    assert told == {name: (fault.function, fault.says) for name, fault in single.items()}


def test_events() -> None:
    told = {code_of(row[0])[0] for row in table(DOCS / "run-store.md", "events")}
    written = {text for text in strings() if re.fullmatch(r"(run|rollout|call)\.[a-z]+", text)}
    assert told == written & told, told - written
    assert {text for text in written if text not in told} == set()


def test_causes() -> None:
    """All causes that the code can give, found where failures and errors are made, and no other."""
    told = {(row[0], code_of(row[1])[0]) for row in table(DOCS / "tasks.md", "causes")}
    literals = set(strings())
    assert {cause for _, cause in told} <= literals
    assert set(given()) <= told, set(given()) - told


def trees() -> Iterator[ast.Module]:
    for file in sorted((ROOT / "modularrsi").rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def strings() -> Iterator[str]:
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


OWNERS = {"SandboxError": "sandbox", "ServiceFault": "model_service", "unscored": "verifier", "WorkerGone": "agent"}


def given() -> Iterator[tuple[str, str]]:
    """(owner, cause) of every failure whose cause is written where it is made."""
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from failure(node.func.id, [a.value if isinstance(a, ast.Constant) else None for a in node.args])


def failure(name: str, args: list[Any]) -> Iterator[tuple[str, str]]:
    if name == "Failure" and args[0] and args[1]:
        yield args[0], args[1]
    elif name in ("unscored", "WorkerGone") and args[0]:
        yield OWNERS[name], args[0]
    elif name in ("SandboxError", "ServiceFault") and len(args) > 1 and args[1] not in (None, "context_overflow"):
        yield OWNERS[name], args[1]
