"""What a call of the simulated model costs: the service by itself, and a solver's turn late in a long conversation.

    python benchmarks/simulator.py [CALLS]

The peer is the standard library's threading HTTP server, which answers the same requests with a fixed body. Both are
asked by the same client, fifty requests at a time. Prints milliseconds a call and the ratio.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import table
from openai import AsyncOpenAI

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


class Fixed(BaseHTTPRequestHandler):
    """Answers every request with the same completion."""

    protocol_version = "HTTP/1.1"
    BODY = json.dumps({
        "id": "x", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    }).encode()  # fmt: skip

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.BODY)))
        self.end_headers()
        self.wfile.write(self.BODY)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class Patient(ThreadingHTTPServer):
    """With a queue that holds all connections; the library's own five would drop some."""

    request_queue_size = 2 * WIDTH


async def milliseconds_a_call(url: str, calls: int) -> float:
    gate = asyncio.Semaphore(WIDTH)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120) as client:

        async def one(number: int) -> None:
            async with gate:
                messages = [{"role": "user", "content": f"number {number}"}]
                await client.chat.completions.create(model="simulated", messages=messages)  # type: ignore[arg-type]

        await asyncio.gather(*map(one, range(WIDTH)))
        began = time.perf_counter()
        await asyncio.gather(*map(one, range(calls)))
        return (time.perf_counter() - began) * 1000 / calls


async def simulator(calls: int) -> float:
    async with SimulatorServer(lambda question: Answer("ok"), Simulation()) as server:
        return await milliseconds_a_call(server.url, calls)


def peer(calls: int) -> float:
    server = Patient(("127.0.0.1", 0), Fixed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        return asyncio.run(milliseconds_a_call(f"http://127.0.0.1:{server.server_port}/v1", calls))
    finally:
        server.shutdown()


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
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ours, theirs = asyncio.run(simulator(calls)), peer(calls)
    with tempfile.TemporaryDirectory() as folder:
        early, late = turn_after(5, Path(folder)), turn_after(200, Path(folder))
    table([
        ("what", "ms", "ratio"),
        ("a call, the simulator's service", f"{ours:.2f}", f"{ours / theirs:.2f}"),
        ("a call, the standard library's threading server", f"{theirs:.2f}", "1"),
        ("the solver's reply after 5 turns", f"{early:.2f}", ""),
        ("the solver's reply after 200 turns", f"{late:.2f}", f"{late / early:.1f}"),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
