"""Copies of the seed library with functions added, replaced and activated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.loader import DEFAULT_COMPOSITION, library_digest, read_tree, seed_library_path
from harness.points import POINTS
from modularrsi.errors import UserError
from modularrsi.simulation.candidates import Candidate


def grow(folder: Path, files: Mapping[str, str], activate: Mapping[str, Sequence[str]] | None = None) -> Path:
    """Write a copy of the seed library to `folder`, which must not exist or be empty. A new folder is there whole or
    not at all, so that nobody runs half of a library after an interruption.

    `files`: path in the library → source. `activate`: `module/point` → names: at a point for one function the (last)
    name replaces it, at a point for many names are added; `-name` takes one out. Raises UserError.
    """
    tree = read_tree(seed_library_path()) | {name: text.encode() for name, text in files.items()}
    composition: dict[str, list[str]] = json.loads(tree[DEFAULT_COMPOSITION])
    for point, names in (activate or {}).items():
        composition[point] = _activated(point, composition.get(point, []), names)
    tree[DEFAULT_COMPOSITION] = (json.dumps(composition, indent=2) + "\n").encode()
    try:
        _place(tree, folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}); name a folder elsewhere") from error
    return folder


def with_candidates(folder: Path, candidates: Sequence[Candidate]) -> Path:
    """The seed with these candidates applied, in order."""
    files: dict[str, str] = {}
    activate: dict[str, list[str]] = {}
    for candidate in candidates:
        files |= candidate.files
        for point, names in candidate.activates.items():
            activate.setdefault(point, []).extend(names)
    return grow(folder, files, activate)


def kept(folder: Path, name: str, make: Callable[[Path], Path]) -> Path:
    """The library that `make` writes (to a path that it is given), kept below `folder` under `name` and its digest: one
    that has changed since is another, and the one that was measured stays. Raises UserError as `grow` does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".kept-", dir=folder) as work:
            made = make(Path(work) / "library")
            place = folder / f"{name}-{library_digest(made)[:8]}"
            if not place.exists():
                made.rename(place)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}); name a folder elsewhere") from error
    return place


def _place(tree: Mapping[str, bytes], folder: Path) -> None:
    """Raises UserError when the place is taken, OSError when it cannot be written."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; name a folder that does not exist yet")
        _write(tree, folder)
        return
    if folder.exists():
        raise UserError(f"{folder} is a file; name a folder that does not exist yet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".library-", dir=folder.parent) as work:
        _write(tree, Path(work) / "whole").rename(folder)


def _write(tree: Mapping[str, bytes], folder: Path) -> Path:
    for name, data in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def _activated(point: str, before: Sequence[str], names: Sequence[str]) -> list[str]:
    """Raises UserError for an unknown point."""
    if point not in POINTS:
        raise UserError(f"{point} is no point; there are {', '.join(POINTS)}")
    out = {name[1:] for name in names if name.startswith("-")}
    new = [name for name in names if not name.startswith("-")]
    if POINTS[point].arity == "one":
        return new[-1:] or list(before)
    return list(dict.fromkeys([*(name for name in before if name not in out), *new]))
