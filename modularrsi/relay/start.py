"""The argv that runs a relay: an interpreter without site-packages, which finds no other code of ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parent.parent.parent)
# Appended: nothing that lies beside this package may stand for a module of the standard library.
_START = "import sys; sys.path.append(sys.argv.pop(1)); from modularrsi.relay.{} import main; sys.exit(main())"


def relay_command(program: str, plan: Mapping[str, Any]) -> list[str]:
    """Run `modularrsi.relay.<program>` with `plan`, as JSON, for its only argument."""
    return [sys.executable, "-I", "-S", "-c", _START.format(program), _ROOT, json.dumps(plan)]
