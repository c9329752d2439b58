"""Planted defects: they plant, differ in the named function alone, and conform or not as they say."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from harness.composition import Composition
from harness.conformance.base import run_suite
from harness.loader import load_library, read_tree, seed_library_path
from harness.points import MODULES
from harness.registry import tagged
from modularrsi.errors import UserError
from modularrsi.instrument.defects import Fault, defects, edited, plant
from modularrsi.instrument.libraries import grow
from modularrsi.signals import SIGNALS
from modularrsi.simulation.habits import HABITS

SINGLE = {name: defect.faults[0] for name, defect in defects().items() if len(defect.faults) == 1}


def test_there_are_enough_and_everywhere() -> None:
    assert len(SINGLE) >= 14
    assert len(defects()) - len(SINGLE) >= 4
    for module in MODULES:
        assert sum(fault.module == module for fault in SINGLE.values()) >= 2
    assert len({fault.point for fault in SINGLE.values()}) >= 10


@pytest.mark.parametrize("name", defects())
def test_it_plants_and_differs_where_it_says(name: str, tmp_path: Path) -> None:
    folder = plant(name, tmp_path / "library")
    library = load_library(folder)
    Composition.default(library.registry, library.root).validate(library.registry)
    seed, grown = read_tree(seed_library_path()), read_tree(str(folder))
    changed = {path for path in seed if seed[path] != grown[path] and path != "composition.json"}
    assert changed == {fault.path for fault in defects()[name].faults}
    assert seed.keys() == grown.keys()
    assert json.loads(seed["composition.json"]) == json.loads(grown["composition.json"])


@pytest.mark.parametrize("name", defects())
def test_two_faults_are_of_two_modules(name: str) -> None:
    modules = [fault.module for fault in defects()[name].faults]
    assert len(set(modules)) == len(modules)


@pytest.mark.parametrize("fault", SINGLE.values(), ids=SINGLE)
def test_it_conforms_as_it_says(fault: Fault) -> None:
    module = types.ModuleType(f"faulty_{fault.function.replace('/', '_')}_{abs(hash(fault.edits))}")
    sys.modules[module.__name__] = module
    exec(compile(edited(fault), fault.path, "exec"), module.__dict__)
    entry = tagged(getattr(module, fault.function.rpartition("/")[2]))
    assert entry.key == fault.function
    failed = [result.case for result in run_suite(entry.point, entry) if not result.ok]
    assert (failed == []) is fault.conforms, failed


@pytest.mark.parametrize("fault", SINGLE.values(), ids=SINGLE)
def test_its_words_are_known(fault: Fault) -> None:
    assert set(fault.feeds) <= set(HABITS)
    assert fault.signals
    assert set(fault.signals) <= set(SIGNALS)
    assert any(SIGNALS[name].module == fault.module for name in fault.signals), "no signal of its own module"


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean one_claim"):
        plant("one_clam", tmp_path / "x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        plant("one_claim", tmp_path / "full")
    assert (tmp_path / "full" / "file").read_text() == "mine"
    with pytest.raises(UserError, match="is no point"):
        grow(tmp_path / "y", {}, {"tools/nothing": ["x"]})
    with pytest.raises(UserError, match="is a file"):
        grow(tmp_path / "full" / "file", {})
    with pytest.raises(UserError, match="cannot be written"):
        grow(tmp_path / "full" / "file" / "below", {})


def test_a_new_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    in_the_way = {"modules": "a file where a folder has to be"}
    with pytest.raises(UserError, match="cannot be written"):
        grow(tmp_path / "library", in_the_way)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    before = (tmp_path / "mine").stat().st_ino
    assert load_library(plant("one_claim", tmp_path / "mine")).registry
    assert (tmp_path / "mine").stat().st_ino == before, "a shell that stands in it must not lose it"


def test_a_seed_that_has_moved_on_is_noticed() -> None:
    fault = next(iter(SINGLE.values()))
    with pytest.raises(UserError, match=r"defects\.toml"):
        edited(Fault(fault.function, "", (), (), True, (("not in the file", ""),)))


def test_activation(tmp_path: Path) -> None:
    def composition(**activate: list[str]) -> dict[str, list[str]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        points = {point.replace("__", "/"): names for point, names in activate.items()}
        return json.loads((grow(folder, {}, points) / "composition.json").read_text())

    assert composition(tools__command=["write_file"])["tools/command"] == ["write_file"]
    assert composition(tools__grammar=["xml_tags"])["tools/grammar"] == ["xml_tags"]
    assert composition(agent_loop__guard=["-reply_warnings"])["agent_loop/guard"] == []
