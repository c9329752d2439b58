"""How long a worker takes in its cage: from the engine's call to the worker's first request, the cage's start included.

    python benchmarks/worker_in_cage.py [ROUNDS]

Medians in milliseconds for every cage that works on this machine, beside a bare interpreter started the same way.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

from common import table

from harness import types
from harness.loader import seed_library_path
from modularrsi.cage.base import Cage, CageLimits
from modularrsi.cage.choose import CAGES
from modularrsi.cage.worker import Worker, start_message


async def first_request(cage: Cage, number: int) -> float:
    library = Path(seed_library_path())
    began = time.perf_counter()
    async with Worker(cage, library, CageLimits(), f"bench-{number}") as worker:
        task, limits = asdict(types.Task("Say hello.")), asdict(types.Limits())
        await worker.send(start_message(task, limits, cage.library_path(library), None))
        message = await worker.receive(30.0)
        seconds = time.perf_counter() - began
    assert message["method"] == "terminal.read", message
    return 1_000 * seconds


async def bare() -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "pass")
    await process.wait()
    return 1_000 * (time.perf_counter() - began)


async def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    rows = [("", "median ms", "fastest ms")]
    rows.append(_row("bare interpreter", [await bare() for _ in range(rounds)]))
    for cage in CAGES:
        if cage.available().usable:
            times = [await first_request(cage, number) for number in range(rounds)]
            rows.append(_row(f"worker in {cage.kind}", times[1:]))
    table(rows)


def _row(name: str, values: list[float]) -> tuple[str, str, str]:
    return name, f"{statistics.median(values):.0f}", f"{min(values):.0f}"


if __name__ == "__main__":
    asyncio.run(main())
