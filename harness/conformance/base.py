"""How suites are written, found and run.

    def case_counts_bytes(limit: Limit, make_context: ContextFactory) -> None:
        \"\"\"The result is at most `Limits.observation_bytes` bytes long.\"\"\"
        ctx = make_context(limits=Limits(observation_bytes=100))
        text = limit("x" * 1000, ctx)
        require(len(text.encode()) <= 100, f"{len(text.encode())} bytes for a limit of 100")

`make_context` takes what `harness.scripted.make_context` takes; the function under test is already active at its point.
A case calls `fn` directly, or lets the kernel do it (`ctx.run.observe(...)`, `ctx.drive()`).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from harness.errors import LibraryError
from harness.points import POINTS
from harness.registry import Function, tagged
from harness.scripted import (
    Answer,
    Effect,
    ScriptedContext,
    ScriptedModel,
    ScriptedSandbox,
    ScriptedTerminal,
    make_context,
)
from harness.types import Limits, Task

_PACKAGE = "harness.conformance"


class Nonconformance(Exception):
    """The function breaks a rule of its point."""

    def __init__(self, case: str, message: str) -> None:
        super().__init__(f"{case}: {message}")
        self.case = case
        self.message = message


class ContextFactory(Protocol):
    """`harness.scripted.make_context` with the function under test active."""

    def __call__(
        self,
        *functions: Callable[..., Any] | Function,
        model: ScriptedModel | Iterable[Answer] = (),
        terminal: ScriptedTerminal | Iterable[Effect | str] = (),
        sandbox: ScriptedSandbox | None = None,
        task: Task | None = None,
        limits: Limits | None = None,
    ) -> ScriptedContext: ...


Case = Callable[[Any, ContextFactory], None]


@dataclass(frozen=True, slots=True)
class Result:
    """One case's outcome; `message` says what is wrong ("" when ok)."""

    case: str
    ok: bool
    message: str = ""


def require(condition: bool, message: str, case: str = "") -> None:
    """Raise Nonconformance with `message` unless the condition holds. `run_suite` fills in the case's name."""
    if not condition:
        raise Nonconformance(case, message)


def suite(point: str) -> tuple[Case, ...]:
    """The cases of `module/point`, in the order they are written. Raises LibraryError when there is no suite."""
    if point not in POINTS:
        raise LibraryError(f"unknown point {point!r}")
    name = f"{_PACKAGE}.{point.replace('/', '_')}"
    if name.rpartition(".")[2] not in suites():
        raise LibraryError(f"{point} has no conformance suite ({name})")
    return tuple(_cases(import_module(name)))


def suites() -> dict[str, str]:
    """The suites there are: module name (`observation_limit`) → point (`observation/limit`)."""
    package = import_module(_PACKAGE)
    found = {info.name for info in pkgutil.iter_modules(package.__path__)}
    names = {key.replace("/", "_"): key for key in POINTS}
    return {name: point for name, point in names.items() if name in found}


def run_suite(point: str, fn: Callable[..., Any] | Function) -> list[Result]:
    """Run every case against a tagged function; one result a case, none skipped after a failure."""
    entry = fn if isinstance(fn, Function) else tagged(fn)
    if entry.point != point:
        raise LibraryError(f"{entry.key} is not a function of {point}")
    return [_run(case, entry) for case in suite(point)]


def _cases(module: ModuleType) -> Iterator[Case]:
    for name, value in vars(module).items():
        if name.startswith("case_"):
            yield value


def _run(case: Case, entry: Function) -> Result:
    name = getattr(case, "__name__", repr(case)).removeprefix("case_")

    def factory(*functions: Callable[..., Any] | Function, **given: Any) -> ScriptedContext:
        return make_context(entry, *functions, **given)

    try:
        case(entry.call, factory)
    except Nonconformance as error:
        return Result(name, False, error.message)
    # The boundary to code under judgement: whatever a candidate raises is a verdict, not a crash of the suite.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return Result(name, False, f"raised {type(error).__name__}: {error}")
    return Result(name, True)
