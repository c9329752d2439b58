"""Tags on functions, and the instance that collects them.

The decorator only tags; importing a library file changes nothing but that file's own namespace. `Registry` is an
instance: two generations of a library live side by side in one process, each in its own.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from harness.errors import LibraryError
from harness.points import MODULES, POINTS, Point
from harness.record import record

TAG_ATTRIBUTE = "__harness_tag__"

F = TypeVar("F", bound=Callable[..., Any])


@record
class Tag:
    """What the decorator says of a function.

    `conflicts` and `needs` name a function as "point/name" or "module/point/name", or a whole point as
    "module/point". `order` sorts the library's listing and its default choice. `usage` is what the agent is shown of a
    helper command. `dispatches_commands`: this `tools/route` runs helper commands.
    """

    module: str
    point: str
    describes: str
    usage: str = ""
    conflicts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    order: int = 50
    dispatches_commands: bool = False


def function(
    *,
    module: str,
    point: str,
    describes: str,
    usage: str = "",
    conflicts: Sequence[str] = (),
    needs: Sequence[str] = (),
    order: int = 50,
    dispatches_commands: bool = False,
) -> Callable[[F], F]:
    """Tag a function as an implementation of `module/point`. Nothing is checked or registered here."""
    tag = Tag(module, point, describes, usage, tuple(conflicts), tuple(needs), order, dispatches_commands)

    def mark(target: F) -> F:
        setattr(target, TAG_ATTRIBUTE, tag)
        return target

    return mark


@record
class Function:
    """One function of a library: its tag, its code and where it came from (`digest`: sha256 of the file's bytes)."""

    tag: Tag
    name: str
    call: Callable[..., Any]
    source_path: str = ""
    digest: str = ""

    @property
    def point(self) -> str:
        """`module/point`, a key of `harness.points.POINTS`."""
        return f"{self.tag.module}/{self.tag.point}"

    @property
    def key(self) -> str:
        """`module/point/name`."""
        return f"{self.point}/{self.name}"


class Registry:
    """The functions of one library, by `module/point/name`."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self._declared: set[str] = set()

    def add(self, target: Callable[..., Any], source_path: str = "", digest: str = "") -> Function:
        """Check and keep one tagged function.

        `source_path` is relative to the library's root, or "" for a function that has no file (a test's). Raises
        LibraryError when the tag, the signature or the place is wrong, or when the name is taken.
        """
        entry = tagged(target, source_path, digest)
        where = source_path or entry.key
        if entry.key in self._functions:
            raise LibraryError(f"{where}: {entry.point} already has a {entry.name!r}; rename one of them")
        check_place(entry)
        check_signature(entry)
        self._functions[entry.key] = entry
        return entry

    def declare(self, key: str) -> None:
        """Make `module/point/name` known without its code: the library has it, this rollout does not run it."""
        self._declared.add(key)

    def knows(self, key: str) -> bool:
        """Whether the library has this function, loaded or only declared."""
        return key in self._functions or key in self._declared

    def known(self) -> list[str]:
        """The keys of all functions the library has, loaded or only declared, sorted."""
        return sorted(self._declared.union(self._functions))

    def functions(self, point: str = "") -> tuple[Function, ...]:
        """All loaded functions, or those at `module/point`, by (point in the table's order, order, name)."""
        places = {key: index for index, key in enumerate(POINTS)}
        chosen = [entry for entry in self._functions.values() if not point or entry.point == point]
        return tuple(sorted(chosen, key=lambda entry: (places[entry.point], entry.tag.order, entry.name)))

    def get(self, key: str) -> Function:
        """The function `module/point/name`. Raises LibraryError that names the nearest known one."""
        try:
            return self._functions[key]
        except KeyError:
            raise LibraryError(f"no function {key!r} in this library{nearest(key, self._functions)}") from None

    def __contains__(self, key: object) -> bool:
        return key in self._functions

    def __len__(self) -> int:
        return len(self._functions)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for an error message, or "" when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def tagged(target: Callable[..., Any], source_path: str = "", digest: str = "") -> Function:
    """The `Function` of a tagged callable. Raises LibraryError when it has no tag or names an unknown point."""
    name = getattr(target, "__name__", "")
    where = source_path or repr(name)
    tag = getattr(target, TAG_ATTRIBUTE, None)
    if not isinstance(tag, Tag):
        raise LibraryError(f"{where}: {name or target!r} is not tagged; put @function(...) above it")
    entry = Function(tag, name, target, source_path, digest)
    if tag.module not in MODULES:
        raise LibraryError(f"{where}: unknown module {tag.module!r}{nearest(tag.module, MODULES)}")
    if entry.point not in POINTS:
        raise LibraryError(f"{where}: unknown point {entry.point!r}{nearest(entry.point, POINTS)}")
    return entry


def check_place(entry: Function) -> None:
    """A library file is `modules/<module>/<point>/<name>.py` and its function bears the file's name."""
    if not entry.source_path:
        return
    expected = f"modules/{entry.key}.py"
    if entry.source_path != expected:
        raise LibraryError(f"{entry.source_path}: holds {entry.key}, which belongs into {expected}")


def check_signature(entry: Function) -> None:
    """Parameter names, kinds and (where written) annotations must be the point's. Raises LibraryError."""
    where, point = entry.source_path or entry.key, POINTS[entry.point]
    if inspect.iscoroutinefunction(entry.call) or inspect.isasyncgenfunction(entry.call):
        raise LibraryError(f"{where}: {entry.name} is async; functions are ordinary synchronous Python")
    if inspect.isgeneratorfunction(entry.call):
        raise LibraryError(f"{where}: {entry.name} is a generator; it must return {point.returns}")
    try:
        signature = inspect.signature(entry.call)
    except (TypeError, ValueError) as error:
        raise LibraryError(f"{where}: {entry.name} has no readable signature: {error}") from error
    _check_parameters(where, point, entry.name, signature)
    _check_annotations(where, point, signature)


def _check_parameters(where: str, point: Point, name: str, signature: inspect.Signature) -> None:
    parameters = signature.parameters.values()
    plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    if not plain or tuple(signature.parameters) != point.parameters:
        wanted = ", ".join(point.parameters)
        raise LibraryError(f"{where}: the signature is {name}{signature}; {point.key} wants {name}({wanted})")


def _check_annotations(where: str, point: Point, signature: inspect.Signature) -> None:
    wanted = inspect.signature(point.protocol.__call__)
    for name, parameter in signature.parameters.items():
        _compare(where, f"parameter {name!r}", parameter.annotation, wanted.parameters[name].annotation)
    _compare(where, "the return value", signature.return_annotation, wanted.return_annotation)


def _compare(where: str, what: str, found: object, wanted: object) -> None:
    if found is inspect.Signature.empty or _last_name(found) == _last_name(wanted):
        return
    raise LibraryError(f"{where}: {what} is annotated {_last_name(found)}, must be {_last_name(wanted)}")


def _last_name(annotation: object) -> str:
    """`types.Snapshot`, `'Snapshot'` and the class itself all read `Snapshot`; `Sequence[x.Advice]` keeps its shape."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "") or str(annotation)
    if not isinstance(annotation, str) and getattr(annotation, "__args__", ()):
        text = str(annotation)
    return re.sub(r"[A-Za-z_][\w.]*\.", "", text).replace('"', "").replace("'", "").replace(" ", "")
