"""Planted defects: seed libraries with one or two known faults, for scoring diagnosis, votes and gates.

A fault is an edit of a seed function, so that what is wrong can be read off, and nothing else differs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from harness.loader import read_tree, seed_library_path
from modularrsi.errors import UserError
from modularrsi.instrument.libraries import grow


@dataclass(frozen=True, slots=True)
class Fault:
    """One known fault. `function` is `module/point/name`; `edits` are (old, new) texts of its file, each once.

    signals    how it should show in trajectories
    feeds      habits of the simulated solver by which it is felt; () = whatever they are
    conforms   whether the function still passes its conformance suite
    """

    function: str
    says: str
    signals: tuple[str, ...]
    feeds: tuple[str, ...]
    conforms: bool
    edits: tuple[tuple[str, str], ...]

    @property
    def module(self) -> str:
        return self.function.partition("/")[0]

    @property
    def point(self) -> str:
        return self.function.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Of its file in a library."""
        return f"modules/{self.function}.py"


@dataclass(frozen=True, slots=True)
class Defect:
    name: str
    faults: tuple[Fault, ...]


_PAIRS = (
    ("vague_complaint", "narrow_limit"),
    ("one_claim", "silent_warnings"),
    ("screen_only", "impatient_recovery"),
    ("empty_handover", "overruled_objection"),
    ("lost_command", "early_compression"),
)
"""Which single faults are also planted together, in different modules."""


@cache
def defects() -> Mapping[str, Defect]:
    """All of them by name: those with one fault, then those with two (`a+b`)."""
    text = (resources.files("modularrsi.instrument") / "defects.toml").read_text(encoding="utf-8")
    single = {name: Defect(name, tuple(map(_fault, entry["fault"]))) for name, entry in tomllib.loads(text).items()}
    pairs = {f"{a}+{b}": Defect(f"{a}+{b}", single[a].faults + single[b].faults) for a, b in _PAIRS}
    return single | pairs


def plant(name: str, folder: Path) -> Path:
    """Write the seed library with this defect to `folder`. Raises UserError."""
    return grow(folder, {fault.path: edited(fault) for fault in _defect(name).faults})


def chosen(names: Sequence[str]) -> list[str]:
    """These defects, or all with one fault when none is named. Raises UserError for one that is not known."""
    return [_defect(name).name for name in names] or [name for name, one in defects().items() if len(one.faults) == 1]


def _defect(name: str) -> Defect:
    if name in defects():
        return defects()[name]
    near = get_close_matches(name, defects(), n=1)
    hint = f"did you mean {near[0]}?" if near else "`modularrsi simulation defects` lists them"
    raise UserError(f"there is no defect {name}; {hint}")


def edited(fault: Fault) -> str:
    """The faulty source. Raises UserError when the seed function is no longer what the edit was made for."""
    source = read_tree(seed_library_path())[fault.path].decode()
    for old, new in fault.edits:
        if source.count(old) != 1:
            raise UserError(f"the defect in {fault.function} does not fit the seed any more: {old!r} does not stand "
                            "there once; correct modularrsi/instrument/defects.toml")
        source = source.replace(old, new)
    return source


def _fault(entry: Mapping[str, Any]) -> Fault:
    edits = tuple((edit["old"], edit["new"]) for edit in entry["edits"])
    return Fault(
        entry["function"], entry["says"], tuple(entry["signals"]), tuple(entry["feeds"]), entry["conforms"], edits
    )
