"""What one rollout activates, and whether it can work together.

A composition is data: point → names, in order. It is checked against a registry before anything runs, and all that is
wrong is reported at once. (`os.path` for the reason given in `harness.loader`.)
"""
# ruff: noqa: PTH113, PTH118, PTH123

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from harness.errors import CompositionError
from harness.points import POINTS
from harness.registry import Function, Registry, nearest

DEFAULT_FILE = "composition.json"

_POINT_NAMES = {point.name: key for key, point in POINTS.items()}


@dataclass(frozen=True)
class Composition:
    """`functions` maps `module/point` to names: exactly one at a `one` point, an ordered subset at a `many` point."""

    functions: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        ordered = sorted(self.functions.items(), key=lambda item: _place(item[0]))
        object.__setattr__(self, "functions", {point: tuple(names) for point, names in ordered if names})

    def __hash__(self) -> int:
        return hash(self.canonical())

    # ---------------------------------------------------------------------------------------------------- as JSON

    def canonical(self) -> str:
        """The one JSON text of this composition: keys sorted, points without functions left out."""
        return json.dumps({key: list(names) for key, names in self.functions.items()}, sort_keys=True,
                          separators=(",", ":"))

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON, as hexadecimal digits."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    @classmethod
    def from_json(cls, given: str | bytes | Mapping[str, Any], where: str = "composition") -> Composition:
        """From JSON text or its object: {"module/point": ["name", …]}; one name may stand without a list.

        Raises CompositionError that names the field.
        """
        data: object = given
        if isinstance(given, str | bytes):
            try:
                data = json.loads(given)
            except (ValueError, RecursionError) as error:
                raise CompositionError(f"{where}: not JSON: {error}") from error
        if not isinstance(data, Mapping):
            raise CompositionError(f"{where}: must be an object of module/point → names")
        fields = cast("Mapping[str, object]", data)
        return cls({point: _names(names, f"{where}: {point}") for point, names in fields.items()})

    @classmethod
    def default(cls, registry: Registry, root: str | os.PathLike[str] | None = None) -> Composition:
        """The library's own choice: `composition.json` at its root, else the first function by (order, name) of each
        point that must have one, and none elsewhere. Raises CompositionError for an unreadable file."""
        brought = cls.brought(root) if root else None
        if brought is not None:
            return brought
        chosen: dict[str, tuple[str, ...]] = {}
        for key, point in POINTS.items():
            names = tuple(entry.name for entry in registry.functions(key))
            chosen[key] = names[:1] if point.arity == "one" else ()
        return cls(chosen)

    @classmethod
    def brought(cls, root: str | os.PathLike[str]) -> Composition | None:
        """The `composition.json` at a library's root, or None when it brings none. Raises CompositionError."""
        file = os.path.join(root, DEFAULT_FILE)
        if not os.path.isfile(file):
            return None
        with open(file, "rb") as content:
            return cls.from_json(content.read(), file)

    def keys(self) -> frozenset[str]:
        """`module/point/name` of everything in it."""
        return frozenset(f"{point}/{name}" for point, names in self.functions.items() for name in names)

    # ------------------------------------------------------------------------------------------------- validation

    def validate(self, registry: Registry) -> None:
        """Raise CompositionError listing everything that is wrong."""
        found = self.problems(registry)
        if found:
            raise CompositionError("; ".join(found) if len(found) == 1 else "\n- ".join(["cannot run:", *found]))

    def problems(self, registry: Registry) -> list[str]:
        """All that keeps this composition from running, one sentence each."""
        active = [entry for _, entry in self._known(registry)]
        return [
            *self._unknown(registry),
            *self._counts(),
            *(problem for entry in active for problem in _relations(entry, active, registry)),
            *_undispatched(active),
        ]

    def resolve(self, registry: Registry) -> dict[str, tuple[Function, ...]]:
        """Validate, then the functions of each point in order. Raises CompositionError."""
        self.validate(registry)
        resolved: dict[str, tuple[Function, ...]] = {}
        for point, entry in self._known(registry):
            resolved[point] = (*resolved.get(point, ()), entry)
        return resolved

    def _known(self, registry: Registry) -> Iterator[tuple[str, Function]]:
        for point, names in self.functions.items():
            for name in names:
                if f"{point}/{name}" in registry:
                    yield point, registry.get(f"{point}/{name}")

    def _unknown(self, registry: Registry) -> Iterator[str]:
        for point, names in self.functions.items():
            if point not in POINTS:
                yield f"unknown point {point!r}{nearest(point, POINTS)}"
                continue
            for name in names:
                if not registry.knows(f"{point}/{name}"):
                    known = [key.removeprefix(f"{point}/") for key in registry.known() if key.startswith(f"{point}/")]
                    yield f"{point} has no function {name!r}{nearest(name, known)}"

    def _counts(self) -> Iterator[str]:
        for key, point in POINTS.items():
            names = self.functions.get(key, ())
            if point.arity == "one" and len(names) != 1:
                yield f"{key} needs exactly one function, {len(names) or 'none'} given" + _listed(names)
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f"{key} names {name!r} twice"


def _place(key: str) -> tuple[int, str]:
    places = list(POINTS)
    return (places.index(key) if key in POINTS else len(places), key)


def _names(names: object, where: str) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Sequence):
        listed = tuple(cast("Sequence[object]", names))
        if all(isinstance(name, str) for name in listed):
            return cast("tuple[str, ...]", listed)
    raise CompositionError(f"{where}: must be a list of function names")


def _listed(names: tuple[str, ...]) -> str:
    return f": {', '.join(names)}" if names else ""


# -------------------------------------------------------------------------------------------------- conflicts and needs


def _relations(entry: Function, active: list[Function], registry: Registry) -> Iterator[str]:
    others = [other for other in active if other is not entry]
    for reference in entry.tag.conflicts:
        hits, problem = _match(reference, others, registry)
        if problem:
            yield f"{entry.key} conflicts with {reference!r}: {problem}"
        for other in hits:
            yield f"{entry.key} conflicts with {other.key}; leave one of them out"
    for reference in entry.tag.needs:
        hits, problem = _match(reference, others, registry)
        if problem:
            yield f"{entry.key} needs {reference!r}: {problem}"
        elif not hits:
            yield f"{entry.key} needs {reference}, which is not active"


def _match(reference: str, others: list[Function], registry: Registry) -> tuple[list[Function], str]:
    """(the active functions a reference names, "") or ([], what is wrong with the reference)."""
    point = reference if reference in POINTS else _POINT_NAMES.get(reference, "")
    if point:
        return [other for other in others if other.point == point], ""
    *place, name = reference.split("/")
    point = _POINT_NAMES.get(place[0], "") if len(place) == 1 else "/".join(place)
    key = f"{point}/{name}"
    if not registry.knows(key):
        known = [*POINTS, *registry.known()]
        return [], f"there is no such function or point{nearest(key if point else reference, known)}"
    return [other for other in others if other.key == key], ""


def _undispatched(active: list[Function]) -> Iterator[str]:
    """A helper command that the active route would type into the terminal instead of running."""
    if any(entry.point == "tools/route" and entry.tag.dispatches_commands for entry in active):
        return
    for entry in active:
        if entry.point == "tools/command":
            yield f"{entry.key}: no active tools/route dispatches helper commands; choose one that does"
