"""The engine's handle on a worker, in every cage: how it starts, ends, is ended, and outlives nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cages import KINDS, LIMITS, Running, containers, usable_cage
from support.leftovers import processes

from harness.errors import WireError
from harness.loader import seed_library_path
from modularrsi.cage.base import Cage
from modularrsi.cage.worker import Worker, WorkerGone
from modularrsi.errors import SandboxError

ROOT = Path(__file__).resolve().parents[3]
ECHO = """
import os
while True:
    line = b""
    while not line.endswith(b"\\n"):
        part = os.read(0, 65536)
        if not part:
            raise SystemExit(7)
        line += part
    os.write(1, line)
"""
FOREVER = "import os\nos.write(1, b'{\"up\": 1}\\n')\nwhile True: pass\n"


@pytest.fixture(params=KINDS)
def cage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cage:
    return usable_cage(request.param, monkeypatch)


SHORT = replace(LIMITS, cpu_seconds=2)


def work(cage: Cage, program: str, use: Callable[[Worker], Awaitable[Any]], name: str = "worker-test") -> Any:
    async def session() -> Any:
        async with Worker(Running(cage, program), Path(seed_library_path()), SHORT, name) as worker:
            return await use(worker)

    return asyncio.run(session())


def test_lines_go_both_ways_whole(cage: Cage) -> None:
    long = {"text": "ü" * 300_000, "number": 1}

    async def use(worker: Worker) -> list[dict[str, Any]]:
        answers = []
        for message in ({"a": 1}, long, {"b": None}):
            await worker.send(message)
            answers.append(await worker.receive(60))
        return answers

    assert work(cage, ECHO, use) == [{"a": 1}, long, {"b": None}]


@pytest.mark.parametrize(
    ("program", "cause", "status"),
    [
        ("import os\nos._exit(3)", "worker_crashed", "status 3"),
        ("import os\nos._exit(125)", "worker_crashed", "status 1"),  # 125 is what a broken cage says
        ("import sys\nsys.exit('last words')", "worker_crashed", "last words"),
        ("import ctypes\nctypes.string_at(1)", "worker_crashed", "status"),
        ("import time\nwhile True: time.process_time()", "worker_killed", "status"),
    ],
)
def test_how_it_ends_is_its_own_fault(cage: Cage, program: str, cause: str, status: str) -> None:
    with pytest.raises(WorkerGone) as gone:
        work(cage, program, lambda worker: worker.receive(60))
    assert gone.value.cause == cause
    assert status in str(gone.value)


def test_a_cage_that_does_not_stand_is_not_the_harnesss_fault(cage: Cage, tmp_path: Path) -> None:
    async def session() -> None:
        async with Worker(cage, tmp_path / "no such library", LIMITS, "worker-test"):
            raise AssertionError("it started")

    with pytest.raises(SandboxError, match=f"cage {cage.kind} could not be started") as failed:
        asyncio.run(session())
    assert failed.value.cause == "start_failed"


def test_what_it_says_is_bounded(cage: Cage) -> None:
    flood = "import os\nwhile True: os.write(1, b'x' * 65536)\n"
    with pytest.raises(WireError):
        work(cage, flood, lambda worker: worker.receive(60))

    async def read_tail(worker: Worker) -> int:
        with pytest.raises(WorkerGone):
            await worker.receive(60)
        return len(worker.stderr_tail())

    assert work(cage, "import os\nfor _ in range(64): os.write(2, b'e' * 65536)\nos._exit(1)", read_tail) <= 8_192


def test_it_is_ended_at_once_whatever_it_does(cage: Cage, request: pytest.FixtureRequest) -> None:
    name = f"ended-{os.getpid()}-{cage.kind}"
    stubborn = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + FOREVER

    async def use(worker: Worker) -> None:
        assert await worker.receive(60) == {"up": 1}
        assert running(cage, name)

    work(cage, stubborn + f"# {name}", use, name)
    assert not running(cage, name)


ENGINE = """
import asyncio, sys
from pathlib import Path
from support.cages import LIMITS, Running
from harness.loader import seed_library_path
from modularrsi.cage.choose import CAGES
from modularrsi.cage.worker import Worker

async def session(cage, program, name):
    async with Worker(Running(cage, program), Path(seed_library_path()), LIMITS, name) as worker:
        await worker.receive(60)
        print("up", flush=True)
        await asyncio.sleep(600)

cage = next(cage for cage in CAGES if cage.kind == sys.argv[1])
asyncio.run(session(cage, sys.argv[2], sys.argv[3]))
"""


def test_it_does_not_outlive_a_killed_engine(cage: Cage) -> None:
    name = f"orphan-{os.getpid()}-{cage.kind}"
    argv = [sys.executable, "-c", ENGINE, cage.kind, f"{FOREVER}# {name}", name]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    engine = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert engine.stdout is not None
    assert engine.stdout.readline() == "up\n"
    assert running(cage, name)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    engine.stdout.close()
    deadline = time.monotonic() + 30
    while running(cage, name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(cage, name)


def running(cage: Cage, name: str) -> list[str]:
    """Containers or processes of this worker. Its program, which its arguments hold, names it."""
    return containers(name) if cage.kind == "docker" else processes(name)


def test_a_flood_does_not_hold_up_its_end(cage: Cage) -> None:
    flood = "import os\nfor _ in range(3): os.write(1, b'{}\\n')\nwhile True: os.write(1, b'{}\\n' * 20000)\n"

    async def use(worker: Worker) -> None:
        await worker.receive(60)
        await asyncio.sleep(0.5)  # until the reader has paused, with all buffers full

    work(cage, flood, use)
