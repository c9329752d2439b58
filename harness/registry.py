"""Tags on functions, and the instance that collects them.

The decorator only tags; importing a library file changes nothing but that file's own namespace. `Registry` is an
instance: two generations of a library live side by side in one process, each in its own.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

from harness.errors import LibraryError
from harness.points import MODULES, POINTS, Point

TAG_ATTRIBUTE = "__harness_tag__"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
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
