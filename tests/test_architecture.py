"""The floors of ARCHITECTURE.md, held against the imports of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("harness", "modularrsi")
# `harness.points` names `Context` in annotations only; type-checking imports make no arrow at run time.


def floors(package: str, text: str | None = None) -> list[list[str]]:
    """The map of one package: a list of floors, lowest first, each a list of module or package names."""
    text = (ROOT / "ARCHITECTURE.md").read_text() if text is None else text
    block = re.search(rf"```floors {package}\n(.*?)```", text, re.S)
    assert block, f"ARCHITECTURE.md has no floors for {package}"
    return [line.split() for line in block[1].splitlines() if line.strip()]


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        if "_data" in parts:
            continue
        name = ".".join(part for part in parts if part != "__init__")
        yield name, path


def place(name: str, plan: list[list[str]]) -> tuple[int, str] | None:
    """(floor, entry) of the most specific entry that covers a module name."""
    best: tuple[int, str] | None = None
    for level, entries in enumerate(plan):
        for entry in entries:
            if (name == entry or name.startswith(entry + ".")) and (best is None or len(entry) > len(best[1])):
                best = (level, entry)
    return best


@cache
def imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """(imported dotted name, line, inside a function) of every run-time import of our own packages."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    tree = ast.parse(path.read_text())
    guarded = {id(child) for node in ast.walk(tree) if _is_type_checking(node) for child in ast.walk(node)}
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] in PACKAGES:
                yield name, node.lineno, id(node) in inside


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def resolve(name: str, known: set[str]) -> str:
    """The module that a dotted name lies in (`modularrsi.errors.UserError` -> `modularrsi.errors`)."""
    parts = name.split(".")
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts)


def arrows(package: str) -> Iterator[tuple[str, str, str]]:
    """(importing module, imported module, where) within one package, names without the package prefix."""
    known = {f"{package}.{name}" if name else package for name, _ in modules(package)}
    for name, path in modules(package):
        for target, line, _ in imports(path):
            if target.split(".")[0] != package:
                continue
            found = resolve(target, known)
            yield name, found.removeprefix(package).removeprefix("."), f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_is_on_the_map(package: str) -> None:
    plan = floors(package)
    missing = [name for name, path in modules(package) if name and place(name, plan) is None]
    assert not missing, f"not in ARCHITECTURE.md: {missing}"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_names_nothing_that_is_gone(package: str) -> None:
    names = {name for name, _ in modules(package)}
    entries = [entry for floor in floors(package) for entry in floor]
    gone = [e for e in entries if not any(n == e or n.startswith(e + ".") for n in names)]
    assert not gone, f"in ARCHITECTURE.md but not in the code: {gone}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_arrow_runs_upwards(package: str) -> None:
    plan = floors(package)
    wrong = []
    for name, target, where in arrows(package):
        here, there = place(name, plan), place(target, plan)
        if not name or not target or here is None or there is None:
            continue
        if there[0] > here[0]:
            wrong.append(f"{where}: {name} (floor {here[0]}) imports {target} (floor {there[0]})")
        if there[0] == here[0] and there[1] != here[1]:
            wrong.append(f"{where}: {name} imports {target}, a neighbour on the same floor")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle(package: str) -> None:
    graph: dict[str, set[str]] = {}
    for name, target, _ in arrows(package):
        if name != target:
            graph.setdefault(name, set()).add(target)
    done: set[str] = set()

    def walk(node: str, path: tuple[str, ...]) -> None:
        assert node not in path, "circle: " + " -> ".join([*path[path.index(node):], node])
        if node in done:
            return
        for target in sorted(graph.get(node, ())):
            walk(target, (*path, node))
        done.add(node)

    for node in sorted(graph):
        walk(node, ())


def test_harness_imports_nothing_of_ours_and_only_the_standard_library() -> None:
    import sys

    wrong = []
    for _, path in modules("harness"):
        for node in ast.walk(ast.parse(path.read_text())):
            roots = []
            if isinstance(node, ast.Import):
                roots = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                roots = [node.module.split(".")[0]]
            wrong += [f"{path}: {r}" for r in roots if r != "harness" and r not in sys.stdlib_module_names]
    assert not wrong, "\n".join(wrong)


def test_functions_of_a_library_import_only_the_standard_library_and_harness() -> None:
    for path in (ROOT / "harness" / "modules").rglob("*.py"):
        for target, line, _ in imports(path):
            assert not target.startswith("harness.modules"), f"{path}:{line}: a function imports another function"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_inside_a_function_dodges_the_floors(package: str) -> None:
    hidden = [
        f"{path.relative_to(ROOT)}:{line}: {target}"
        for _, path in modules(package)
        for target, line, inside in imports(path)
        if inside
    ]
    assert not hidden, "\n".join(hidden)


def test_nothing_imports_the_command_line() -> None:
    users = [where for name, target, where in arrows("modularrsi")
             if target.split(".")[0] == "cli" and name.split(".")[0] not in ("cli", "__main__")]
    assert not users, users


def test_a_planted_upward_arrow_would_be_seen() -> None:
    plan = floors("x", "```floors x\nlow\nhigh\n```")
    here, there = place("low", plan), place("high.part", plan)
    assert here and there and there[0] > here[0]


def test_every_test_that_the_map_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:tests|harness|modularrsi)/[\w/.-]+\.py)", text))
    missing = sorted(name for name in named if not (ROOT / name).is_file())
    assert len(named) > 20 and not missing
