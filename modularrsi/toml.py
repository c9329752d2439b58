"""Reading a TOML file of the user's: what is wrong with it is one sentence that names it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from modularrsi.errors import UserError


def read_toml(path: Path) -> dict[str, Any]:
    """Raises UserError when it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not TOML: {error}") from error
