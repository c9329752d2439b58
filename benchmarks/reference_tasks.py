"""200 tasks with the reference solution, from the command to its end: ours, and Harbor's oracle beside it.

    python benchmarks/reference_tasks.py [TASKS]

Both run the same tasks on this machine in bubblewrap, one after the other, twice in turn; the ratio is ours / Harbor's.
Harbor is left out, and said to be, where it is not installed (`make harbor-env`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import copies, harbor, harbor_environment, table


def ours(tasks: Path, folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "modularrsi", "run", str(tasks), "--agent", "oracle", "--sandbox", "bubblewrap",
         "-n", "8", "--runs-dir", str(folder), "--json"],
        capture_output=True, check=False,
    )
    seconds = time.perf_counter() - began
    report = json.loads(done.stdout)
    assert report["passed"] == report["planned"], report["mean_reward"]
    return seconds


def theirs(tasks: Path, folder: Path, python: Path, number: int) -> float:
    began = time.perf_counter()
    subprocess.run(
        [str(python.parent / "harbor"), "run", "-p", str(tasks), "-a", "oracle", "--env",
         "harbor_bwrap:BubblewrapEnvironment", "-n", "32", "--jobs-dir", str(folder), "--job-name", "job", "--yes"],
        capture_output=True, check=True, env=harbor_environment(),
    )
    seconds = time.perf_counter() - began
    results = [json.loads(file.read_text()) for file in folder.glob("job/*/result.json")]
    passed = sum(r["verifier_result"]["rewards"]["reward"] == 1.0 for r in results)
    assert passed == number, f"{passed} of {number}"
    return seconds


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    python = harbor()
    mine: list[float] = []
    peer: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mr-bench-") as name:
        folder = Path(name)
        tasks = copies(folder / "tasks", number)
        for turn in range(2):
            mine.append(ours(tasks, folder / f"ours-{turn}"))
            if python is not None:
                peer.append(theirs(tasks, folder / f"theirs-{turn}", python, number))
    rows = [("", f"{number} tasks, s", "ms a task"), _row("modularrsi, bubblewrap", mine, number)]
    if peer:
        rows.append(_row("Harbor, bubblewrap", peer, number))
    table(rows)
    print(f"ratio ours / Harbor's: {statistics.median(mine) / statistics.median(peer):.2f}" if peer
          else "Harbor is not installed (make harbor-env): no peer in this run")


def _row(name: str, seconds: list[float], number: int) -> tuple[str, str, str]:
    median = statistics.median(seconds)
    return name, f"{median:.1f}", f"{1_000 * median / number:.0f}"


if __name__ == "__main__":
    main()
