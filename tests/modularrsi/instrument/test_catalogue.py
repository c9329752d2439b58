"""The candidates of the simulated editor are what their labels say."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path

import pytest

from harness.composition import Composition
from harness.conformance.base import run_suite
from harness.loader import load_library, read_tree, seed_library_path
from harness.points import MODULES
from harness.registry import tagged
from modularrsi.instrument.labels import labels, of_kind
from modularrsi.instrument.libraries import with_candidates
from modularrsi.simulation.candidates import Candidate, candidates

ROOT = Path(__file__).resolve().parents[3]
KINDS = {"good", "useless", "overfitted", "broken", "duplicate", "hostile"}


def failures(candidate: Candidate) -> list[str]:
    """What the conformance suite says against it; "import" when it cannot even be loaded."""
    ((path, source),) = candidate.files.items()
    module = types.ModuleType(f"candidate_{candidate.name}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
        entry = tagged(getattr(module, candidate.name))
    except Exception:  # noqa: BLE001 - hostile and broken code can raise anything
        return ["import"]
    return [result.case for result in run_suite(entry.point, entry) if not result.ok]


def test_every_candidate_has_a_label_and_the_other_way_round() -> None:
    assert set(candidates()) == set(labels())
    sources = {path.name.removesuffix(".py.txt") for path in (ROOT / "modularrsi").rglob("catalogue/*/*.py.txt")}
    assert sources == {name for name, one in candidates().items() if one.files}


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_every_kind(module: str) -> None:
    assert {labels()[name].kind for name, one in candidates().items() if one.module == module} == KINDS


def test_labels_and_truth_are_unknown_to_the_simulator() -> None:
    for path in (ROOT / "modularrsi" / "simulation").rglob("*"):
        if path.is_file() and path.suffix in (".py", ".toml", ".txt") and path.name != "__init__.py":
            text = path.read_text()
            assert "labels.toml" not in text, path
            for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else (
                    [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                )
                assert not any(name.startswith("modularrsi.instrument") for name in names), path


@pytest.mark.parametrize("name", [*of_kind("good"), *of_kind("useless"), *of_kind("duplicate")])
def test_the_harmless_conform(name: str) -> None:
    if candidates()[name].files:
        assert failures(candidates()[name]) == []


@pytest.mark.parametrize("name", of_kind("good"))
def test_the_good_make_a_library_that_composes(name: str, tmp_path: Path) -> None:
    library = load_library(with_candidates(tmp_path / "library", [candidates()[name]]))
    Composition.default(library.registry, library.root).validate(library.registry)


@pytest.mark.parametrize("name", of_kind("broken"))
def test_the_broken_are_broken(name: str) -> None:
    assert failures(candidates()[name])


@pytest.mark.parametrize("name", of_kind("duplicate"))
def test_duplicates_are_seed_functions_by_another_name(name: str) -> None:
    (source,) = candidates()[name].files.values()
    point = next(iter(candidates()[name].activates))
    seeds = [data.decode() for path, data in read_tree(seed_library_path()).items() if f"/{point}/" in f"/{path}"]
    assert shape(source) in [shape(seed) for seed in seeds]


class _Nameless(ast.NodeTransformer):
    """Names numbered in order of appearance; no docstrings, decorators or annotations."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def _number(self, name: str) -> str:
        return self.names.setdefault(name, f"n{len(self.names)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._number(node.id), ast.Load())

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._number(node.arg))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._number(node.name) if node.name else None
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.decorator_list, node.returns = "f", [], None
        if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            del node.body[0]
        return self.generic_visit(node)


def shape(source: str) -> list[str]:
    """Each function of a file without its names."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [ast.dump(_Nameless().visit(node)) for node in found]
