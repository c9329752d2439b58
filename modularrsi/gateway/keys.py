"""Where keys come from: the environment or a file, at the moment they are used. They are never stored or shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from modularrsi.errors import UserError
from modularrsi.gateway.settings import OPENAI_URL, ModelSettings

NO_KEY = "none"
"""Sent where a service needs no key: the client insists on a text."""


def resolve_key(settings: ModelSettings, where: str, environ: Mapping[str, str] | None = None) -> str:
    """The key of one model, or NO_KEY. Raises UserError that names the variable or file, never its content."""
    environ = os.environ if environ is None else environ
    if settings.api_key_file:
        return _checked(_read(settings.api_key_file, where), f"{where}.api_key_file: {settings.api_key_file}")
    name = settings.api_key_env or ("OPENAI_API_KEY" if settings.url == OPENAI_URL else None)
    if name is None:
        return NO_KEY
    if not environ.get(name, "").strip():
        raise UserError(f"{where}: the environment variable {name} is not set; export it, or name another place"
                        " with api_key_env or api_key_file")  # fmt: skip
    return _checked(environ[name], f"{where}: the environment variable {name}")


def _read(name: str, where: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UserError(f"{where}.api_key_file: {name} cannot be read: {reason}") from None


def _checked(key: str, place: str) -> str:
    """A header carries visible ASCII; a line break in a key would be another header."""
    key = key.strip()
    if not key or not all("!" <= sign <= "~" for sign in key):
        raise UserError(f"{place} must hold one key: one line of visible ASCII characters")
    return key
