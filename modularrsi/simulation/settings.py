"""What can be set of the simulated model: from a TOML table `[simulation]`, and from `KEY=VALUE` on the command line.

    [simulation]
    seed = 7                      # same seed, same requests: same replies
    context_tokens = 32000        # a longer prompt is refused, as a service refuses it
    patience = 6                  # wasted turns after which the solver gives up and declares the task complete

    [simulation.habits]           # probabilities; or habits = "none" | "default"
    early_completion = 1.0

    [simulation.analyst]          # error rates of the other roles: analyst, editor, reviewer, composer
    wrong_function = 0.1

    [simulation.faults]           # of the service, by rate …
    rate_limit = 0.05
    script = ["ok", "cut_stream"] # … or one after the other, as requests come; after the script the rates count
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.simulation import habits as habit_table

FAULTS: dict[str, str] = {
    "rate_limit": "429 with Retry-After",
    "rate_limit_bare": "429 without Retry-After",
    "server_error": "500",
    "hang": "no answer until the caller gives up (or hang_sec is over: then the connection is closed)",
    "slow_stream": "the reply in small pieces, slow_sec apart",
    "cut_stream": "the connection ends in the middle of the body",
    "bad_json": "status 200 with a body that is not complete JSON",
    "wrong_usage": "usage with impossible numbers",
    "empty_choice": "a reply without a choice",
}
"""The service's faults, each with what the caller sees."""

ERRORS: dict[str, dict[str, float]] = {
    "analyst": {"missed": 0.05, "wrong_function": 0.05, "wrong_module": 0.05, "unreadable": 0.02},
    "editor": {"off_target": 0.10, "ignores_verdict": 0.20, "unreadable": 0.02},
    "reviewer": {"false_accept": 0.10, "false_refuse": 0.05, "unreadable": 0.02},
    "composer": {"missed": 0.10, "needless": 0.10, "unknown_function": 0.02, "unreadable": 0.02},
}
"""Error rates of the roles that are not the solver, with their defaults."""

_NUMBERS = {"retry_after": 1.0, "hang_sec": 3600.0, "slow_sec": 0.05}


@dataclass(frozen=True, slots=True)
class Faults:
    """`rates`: fault → probability of one attempt. `script`: what happens to the first requests, in order of arrival
    ("ok" or a fault). `retry_after`, `hang_sec`, `slow_sec` are seconds."""

    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    script: tuple[str, ...] = ()
    retry_after: float = _NUMBERS["retry_after"]
    hang_sec: float = _NUMBERS["hang_sec"]
    slow_sec: float = _NUMBERS["slow_sec"]


@dataclass(frozen=True, slots=True)
class Simulation:
    """All settings. `weights`: how likely the editor proposes a candidate of its catalogue, by the candidate's name
    (1 when not named, 0 = never)."""

    seed: int = 0
    context_tokens: int = 32_000
    patience: int = 6
    habits: Mapping[str, float] = field(default_factory=habit_table.defaults)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {k: dict(v) for k, v in ERRORS.items()})
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    faults: Faults = field(default_factory=Faults)

    def describe(self) -> dict[str, Any]:
        """For the contract of a run: everything, in plain JSON."""
        return asdict(self)


def read_simulation(table: Mapping[str, Any], where: str) -> Simulation:
    """Settings from a table. Raises UserError that names `where`, the field and the fix."""
    _known(table, {"seed", "context_tokens", "patience", "habits", "weights", "faults", *ERRORS}, where)
    return Simulation(
        seed=_whole(table.get("seed", 0), f"{where}.seed", 0),
        context_tokens=_whole(table.get("context_tokens", 32_000), f"{where}.context_tokens", 256),
        patience=_whole(table.get("patience", 6), f"{where}.patience", 1),
        habits=_habits(table.get("habits", {}), f"{where}.habits"),
        errors={role: _rates(table.get(role, {}), known, f"{where}.{role}") for role, known in ERRORS.items()},
        weights=_weights(table.get("weights", {}), f"{where}.weights"),
        faults=_faults(table.get("faults", {}), f"{where}.faults"),
    )


def parse_assignments(items: Iterable[str]) -> dict[str, Any]:
    """`["seed=7", "habits=none", "habits.early_completion=1"]` as a table. Later ones win. Raises UserError."""
    table: dict[str, Any] = {}
    for item in items:
        name, sign, text = item.partition("=")
        if not sign or not name.strip():
            raise UserError(f"--simulate {item}: write KEY=VALUE, for example seed=7 or habits.early_completion=1")
        _assign(table, name.strip().split("."), _value(text.strip()), item)
    return table


def overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what `over` says instead, table by table."""
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = overlay(cast(Mapping[str, Any], old), cast(Mapping[str, Any], value)) if both else value
    return merged


def _assign(table: dict[str, Any], path: list[str], value: Any, item: str) -> None:
    *folders, last = path
    for name in folders:
        inner = table.setdefault(name, {})
        if isinstance(inner, str):  # habits=none, then habits.early_completion=1
            inner = table[name] = {"start": inner}
        if not isinstance(inner, dict):
            raise UserError(f"--simulate {item}: {name} holds a value, no table")
        table = cast(dict[str, Any], inner)
    table[last] = value


def _value(text: str) -> Any:
    """As TOML reads it; a word without quotes is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _habits(value: Any, where: str) -> dict[str, float]:
    if isinstance(value, str):
        value = {"start": value}
    table = dict(_table(value, where))
    start = table.pop("start", "default")
    if start not in ("none", "default"):
        raise UserError(f'{where} must be a table of probabilities, "none" or "default", not {start!r}')
    base = habit_table.none() if start == "none" else habit_table.defaults()
    return _rates(table, base, where)


def _rates(value: Any, defaults: Mapping[str, float], where: str) -> dict[str, float]:
    table = _table(value, where)
    _known(table, set(defaults), where)
    return {**defaults, **{name: _number(rate, f"{where}.{name}", 1.0) for name, rate in table.items()}}


def _weights(value: Any, where: str) -> dict[str, float]:
    return {name: _number(weight, f"{where}.{name}", 1e9) for name, weight in _table(value, where).items()}


def _faults(value: Any, where: str) -> Faults:
    table = _table(value, where)
    _known(table, {*FAULTS, "script", *_NUMBERS}, where)
    script = table.get("script", [])
    if not isinstance(script, list):
        raise UserError(f'{where}.script must be a list of "ok" and faults')
    for word in cast(list[Any], script):
        if word != "ok" and word not in FAULTS:
            raise UserError(f"{where}.script: {word!r} is no fault; there are ok, {', '.join(FAULTS)}")
    rates = {name: _number(table[name], f"{where}.{name}", 1.0) for name in FAULTS if name in table}
    if sum(rates.values()) > 1.0:
        raise UserError(f"{where}: the rates sum to more than 1")
    seconds = {name: _number(table.get(name, usual), f"{where}.{name}", 86_400.0) for name, usual in _NUMBERS.items()}
    return Faults(rates, tuple(cast(list[str], script)), **seconds)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where} must be a table")
    return cast(Mapping[str, Any], value)


def _known(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise UserError(f"{where}.{name} is unknown; {hint}")


def _whole(value: Any, where: str, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(f"{where} must be a whole number, {lowest} or more")
    return value


def _number(value: Any, where: str, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= highest:
        raise UserError(f"{where} must be a number between 0 and {highest:g}")
    return float(value)
