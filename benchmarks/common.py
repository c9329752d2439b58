"""What the benchmarks share: tasks to run, Harbor as a peer where it is installed, and a table."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TASK = ROOT / "tests" / "tasks" / "greeting"


def copies(folder: Path, number: int) -> Path:
    """`number` tasks that differ in their names only: no Dockerfile that a peer without images could not build."""
    for index in range(number):
        shutil.copytree(TASK, folder / f"greeting-{index:03d}")
    return folder


def harbor() -> Path | None:
    """The Python of an environment with Harbor: $MODULARRSI_HARBOR_PYTHON, or the one `make harbor-env` makes."""
    named = os.environ.get("MODULARRSI_HARBOR_PYTHON")
    found = Path(named) if named else ROOT / ".venv-harbor" / "bin" / "python"
    return found if found.exists() and (found.parent / "harbor").exists() else None


def harbor_environment() -> dict[str, str]:
    """No telemetry, no price list from the network, and our local environment importable."""
    return {
        **os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none",
        "PYTHONPATH": str(ROOT / "benchmarks" / "peer"),
    }


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
