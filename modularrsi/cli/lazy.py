"""Loading a part of the engine only when its command runs: `modularrsi --help` must not pay for a model client.

This is about start-up time, not about the floors: whatever is loaded here lies below the command line anyway.
"""

from __future__ import annotations

import importlib
from typing import Any


def load(name: str) -> Any:
    """The module `modularrsi.<name>`."""
    return importlib.import_module(f"modularrsi.{name}")
