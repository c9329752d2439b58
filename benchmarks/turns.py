"""What a turn costs beside the model and the commands: engine, worker, terminal, record.

    python benchmarks/turns.py [TURNS]

A local server answers at once with one command that waits 0 s. The time between two requests that reach it is then all
overhead: HTTP, reading and checking the reply, typing, reading the screen, refining, the record on disk. Beside it, in
the same run, Terminus-2 in Harbor with the same server (where Harbor is installed); there the wait for the command's
effect is 0 as well. Medians over all turns but the first three, in milliseconds.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, TASK, harbor, harbor_environment, table

sys.path.insert(0, str(ROOT / "tests"))
from support.openai_server import OpenAIServer, Reply, Request

WORK = {"analysis": "", "plan": "", "commands": [{"keystrokes": "true\n", "duration": 0.0}], "task_complete": False}
DONE = {"analysis": "", "plan": "", "commands": [], "task_complete": True}


def policy(turns: int):
    def answer(request: Request) -> Reply:
        return Reply(json.dumps(WORK if request.number < turns else DONE))

    return answer


def gaps(server: OpenAIServer) -> list[float]:
    times = [request.at for request in server.requests][3:]
    return [1_000 * (later - earlier) for earlier, later in itertools.pairwise(times)]


def ours(kind: str, turns: int, folder: Path) -> list[float]:
    with OpenAIServer(policy(turns)) as server:
        subprocess.run(
            [sys.executable, "-m", "modularrsi", "run", str(TASK), "--model", "m", "--base-url", server.url,
             "--sandbox", kind, "--max-turns", str(turns + 5), "--runs-dir", str(folder / f"ours-{kind}")],
            capture_output=True, check=True,
        )
        return gaps(server)


def theirs(python: Path, turns: int, folder: Path) -> list[float]:
    info = {"max_input_tokens": 1_000_000, "max_output_tokens": 8_000, "input_cost_per_token": 0,
            "output_cost_per_token": 0}
    with OpenAIServer(policy(turns)) as server:
        subprocess.run(
            [str(python.parent / "harbor"), "run", "-p", str(TASK), "-a", "terminus-2", "-m", "openai/m", "--ak",
             f"api_base={server.url}", "--ak", f"model_info={json.dumps(info)}", "--ak", f"max_turns={turns + 5}",
             "--ak", "record_terminal_session=false", "--env", "harbor_bwrap:BubblewrapEnvironment", "--jobs-dir",
             str(folder / "theirs"), "--job-name", "job", "--yes"],
            capture_output=True, check=True, env=harbor_environment(),
        )
        return gaps(server)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    rows = [("", "median ms a turn", "slowest tenth", "turns")]
    with tempfile.TemporaryDirectory(prefix="mr-bench-") as name:
        mine = ours("bubblewrap", turns, Path(name))
        rows.append(_row("modularrsi, bubblewrap", mine))
        python = harbor()
        peer = theirs(python, turns, Path(name)) if python else []
        if peer:
            rows.append(_row("Terminus-2 in Harbor, bubblewrap", peer))
    table(rows)
    print(f"ratio ours / Terminus-2's: {statistics.median(mine) / statistics.median(peer):.2f}" if peer
          else "Harbor is not installed (make harbor-env): no peer in this run")


def _row(name: str, values: list[float]) -> tuple[str, str, str, str]:
    slow = statistics.quantiles(values, n=10)[-1]
    return name, f"{statistics.median(values):.1f}", f"{slow:.1f}", str(len(values))


if __name__ == "__main__":
    main()
