"""`task.toml` text → `TaskConfig`, with every mistake of the file named at once and every unknown key reported."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from modularrsi.errors import UserError
from modularrsi.tasks.config import Metadata, TaskConfig

_FIXES = {
    "float_type": "write a number, such as 60.0",
    "int_type": "write a whole number",
    "string_type": "write text in quotes",
    "bool_type": "write true or false",
    "list_type": "write a list: [ … ]",
    "dict_type": "write a table",
    "model_type": "write a table",
    "model_attributes_type": "write a table",
    "missing": "add it",
    "finite_number": "write a finite number",
}


def parse_config(text: str, file: Path) -> TaskConfig:
    """Raises UserError with one line for each mistake."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not TOML: {error}; correct that line") from error
    except RecursionError as error:
        raise UserError(f"{file} is nested too deeply; write it flatter") from error
    try:
        return TaskConfig.model_validate(values)
    except ValidationError as error:
        raise UserError("\n".join(_messages(error, file))) from error


def _messages(error: ValidationError, file: Path) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        field = _field(mistake["loc"])
        what = mistake["msg"].removeprefix("Value error, ")
        fix = _FIXES.get(mistake["type"], "")
        shown = "" if mistake["type"] in ("missing", "value_error") else f", got {_short(mistake['input'])}"
        yield f"{file}: {field + ': ' if field else ''}{what}{shown}{'; ' + fix if fix else ''}"


def _field(location: Sequence[str | int]) -> str:
    """`("steps", 0, "min_reward", "float")` → `steps[0].min_reward` (the last part is pydantic's name of a choice)."""
    field = ""
    for part in location:
        if isinstance(part, int):
            field += f"[{part}]"
        elif part not in ("float", "int", "str") and not part.startswith(("dict[", "constrained-")):
            field += f".{part}" if field else part
    return field


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def unknown_keys(table: BaseModel, where: str = "") -> Iterator[str]:
    """A warning for each key that the schema does not know, with the nearest one that it does."""
    for key in table.model_extra or {}:
        if isinstance(table, Metadata):
            break
        near = difflib.get_close_matches(key, type(table).model_fields, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{where}{key}: unknown, ignored{hint}"
    for name in type(table).model_fields:
        value = getattr(table, name)
        for place, item in enumerate(value) if isinstance(value, list) else [(-1, value)]:
            if isinstance(item, BaseModel):
                yield from unknown_keys(item, f"{where}{name}{f'[{place}]' if place >= 0 else ''}.")
