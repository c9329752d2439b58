"""Frozen data classes that cost a tenth of `@dataclass(frozen=True)` to define.

A worker starts once for every rollout, and most of what it did before its first request was to have `dataclasses`
generate and compile six methods for each of some forty classes (about 1 ms a class). A record shares one set of methods
instead. It is a real data class to `dataclasses.replace`, `asdict`, `fields` and to type checkers, compares and prints
like one, and raises `FrozenInstanceError` on assignment. It has no slots.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import Any, NoReturn, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Class) -> Class:
    """Make `cls` a frozen record of its annotated fields. Fields without a default come first."""
    make: Any = dataclass(init=False, repr=False, eq=False)  # `Any`: a decorator of unknown class is no type of its own
    made: Any = make(cls)
    for method in (_init, _repr, _eq, _hash, _setattr, _delattr):
        setattr(made, f"__{method.__name__.strip('_')}__", method)
    made.__dataclass_params__.frozen = True  # so that a frozen data class may extend it, and a mutable one may not
    return made


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    fields: dict[str, Any] = self.__dataclass_fields__
    if len(args) > len(fields):
        raise TypeError(f"{type(self).__name__}() takes {len(fields)} arguments but {len(args)} were given")
    given = dict(zip(fields, args, strict=False))
    if wrong := kwargs.keys() & given.keys() or kwargs.keys() - fields.keys():
        raise TypeError(f"{type(self).__name__}() got an unexpected or repeated argument {sorted(wrong)[0]!r}")
    given.update(kwargs)
    values = self.__dict__
    for name, entry in fields.items():
        values[name] = given[name] if name in given else _default(self, name, entry)


def _default(self: Any, name: str, entry: Any) -> Any:
    if entry.default is not MISSING:
        return entry.default
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    raise TypeError(f"{type(self).__name__}() is missing the argument {name!r}")


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _eq(self: Any, other: Any) -> bool:
    return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(tuple(self.__dict__.values()))


def _setattr(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
