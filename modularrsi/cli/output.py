"""How results are printed: JSON for programs on standard output, progress for people on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """One document, strict JSON (no NaN), ASCII, so that any reader can read it."""
    json.dump(value, sys.stdout, ensure_ascii=True, allow_nan=False, indent=2)
    sys.stdout.write("\n")
