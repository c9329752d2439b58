"""`${VAR}` and `${VAR:-default}` in the `env` tables of `task.toml`.

Only names that the file itself writes out are read from the user's environment: a task cannot fish for others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class Interpolator:
    """Fills in references; collects what was missing (`errors`) and what was taken from the host (`taken`)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.errors: list[str] = []
        self.taken: set[str] = set()

    def fill(self, where: str, env: Mapping[str, str]) -> dict[str, str]:
        """`where` names the table in errors."""
        return {name: self._text(f"{where}.{name}", text) for name, text in env.items()}

    def _text(self, where: str, text: str) -> str:
        return _REFERENCE.sub(lambda match: self._value(where, match), text)

    def _value(self, where: str, match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = self._environ.get(name) or None
        if value is not None:
            self.taken.add(value)
            return value
        if default is None:
            self.errors.append(f"{where}: ${{{name}}} is not set in your environment; "
                               f"set it, or write ${{{name}:-default}}")
        return default or ""
