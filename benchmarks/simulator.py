"""What a call of the simulated model costs: the service by itself, and a solver's turn late in a long conversation.

    python benchmarks/simulator.py [CALLS]

The peer is the scripted server of the tests, a thread for each connection. Both say two letters to the same bare
client, which lives in the same process and has fifty connections, each with one call at a time. (OpenAI's own client
takes several times as long as either server.)
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, table

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))
from support.openai_server import OpenAIServer, Reply

from modularrsi.gateway.messages import ChatMessage
from modularrsi.instrument.tasks import write_tasks
from modularrsi.simulation.question import Answer, Question
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import Simulation
from modularrsi.simulation.solver.policy import Solver
from modularrsi.tasks.load import find_tasks

WIDTH = 50
REPLY = {"analysis": "", "plan": "", "commands": [{"keystrokes": "ls", "duration": 0.1}], "task_complete": False}
FORM = f"Reply: {json.dumps(REPLY)}"


@dataclass(frozen=True)
class Asked:
    """Milliseconds: `each` from a reply to the next of any connection; `median` and `late` (95 in 100 are faster) from
    a call to its reply."""

    each: float
    median: float
    late: float

    def row(self, name: str, peer: Asked | None = None) -> tuple[str, ...]:
        ratio = f"{self.each / peer.each:.2f}" if peer else "1"
        return name, f"{self.each:.2f}", ratio, f"{1000 / self.each:.0f}", f"{self.median:.1f}", f"{self.late:.1f}"


def request(number: int) -> bytes:
    body = json.dumps({"model": "simulated", "messages": [{"role": "user", "content": f"number {number}"}]})
    return f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def one_after_the_other(url: str, calls: int) -> list[float]:
    """Milliseconds of each call on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
    took: list[float] = []
    for number in range(calls):
        began = time.perf_counter()
        writer.write(request(number))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200")
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        took.append((time.perf_counter() - began) * 1000)
    writer.close()
    return took


async def ask(url: str, calls: int) -> Asked:
    await asyncio.gather(*(one_after_the_other(url, 2) for _ in range(WIDTH)))
    began = time.perf_counter()
    all_of_them = await asyncio.gather(*(one_after_the_other(url, calls // WIDTH) for _ in range(WIDTH)))
    elapsed = (time.perf_counter() - began) * 1000
    took = sorted(each for one in all_of_them for each in one)
    return Asked(elapsed / len(took), took[len(took) // 2], took[len(took) * 95 // 100])


async def simulator(calls: int) -> Asked:
    async with SimulatorServer(lambda question: Answer("ok"), Simulation()) as server:
        return await ask(server.url, calls)


def peer(calls: int) -> Asked:
    with OpenAIServer(lambda request: Reply("ok")) as server:
        return asyncio.run(ask(server.url, calls))


def turn_after(turns: int, folder: Path) -> float:
    """Milliseconds that the policy takes once the conversation has this many turns, each with 2 kB of output."""
    (task,) = find_tasks(write_tasks(folder, 1))
    solver = Solver(Simulation(), [task])
    messages = [ChatMessage("user", f"{FORM}\n\nYour task:\n{task.instruction}")]
    for number in range(turns):
        said = f"(step 1 of 6: wait) turn {number}"
        messages += [ChatMessage("assistant", said), ChatMessage("user", "x = 1; some output\n" * 100 + "root@a:/app#")]
    question = Question("solver", tuple(messages), f"{task.name}/1/0", purpose="turn")
    solver(question)
    began = time.perf_counter()
    for _ in range(5):
        solver(question)
    return (time.perf_counter() - began) * 1000 / 5


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    theirs, ours = peer(calls), asyncio.run(simulator(calls))
    with tempfile.TemporaryDirectory() as folder:
        early, late = turn_after(5, Path(folder)), turn_after(200, Path(folder))
    table([
        ("calls", "ms each", "ratio", "calls/s", "median ms", "95 % ms"),
        ours.row("the simulator's service", theirs),
        theirs.row("a scripted server on threads"),
    ])  # fmt: skip
    print()
    table([
        ("the solver's reply", "ms", "ratio"),
        ("after 5 turns", f"{early:.2f}", ""),
        ("after 200 turns", f"{late:.2f}", f"{late / early:.1f}"),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
