"""How long it takes to type a line and see it: control mode against one tmux client process per command.

    python benchmarks/terminal.py [ROUNDS]

Both drive the same kind of server with the same shell; one round types `:<number>` and reads the screen until it is
there. Prints medians in milliseconds and the ratio.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from modularrsi.terminal import server
from modularrsi.terminal.tmux import TmuxTerminal

SHELL = ["bash", "--noprofile", "--norc", "+H"]
Write = Callable[[str], Awaitable[object]]
Read = Callable[[], Awaitable[str]]


async def type_and_see(write: Write, read: Read, rounds: int) -> list[float]:
    """Milliseconds of each round."""
    taken: list[float] = []
    for number in range(rounds):
        start = time.perf_counter()
        await write(f":{number:04d}.")
        while f":{number:04d}." not in await read():
            pass
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def control_mode(folder: Path, rounds: int) -> dict[str, list[float]]:
    made = TmuxTerminal(SHELL, folder=folder, name="control")
    started = time.perf_counter()
    await made.start()
    start = [(time.perf_counter() - started) * 1000]
    try:
        control = made._control

        async def write(text: str) -> object:
            return await control.run(f"send-keys -l {text}")

        async def read() -> str:
            return (await control.run("capture-pane -p -J"))[0]

        async def send(text: str) -> object:
            return await made.send([text], 0)

        async def read_new() -> str:
            return (await made.read("new")).text

        return {
            "start, prompt included": start,
            "control mode: type and see": await type_and_see(write, read, rounds),
            "TmuxTerminal: send and read": await type_and_see(send, read_new, rounds),
        }
    finally:
        await made.stop()


async def client_commands(folder: Path, rounds: int) -> dict[str, list[float]]:
    made = TmuxTerminal(SHELL, folder=folder, name="client")
    await made.start()
    tmux = ["tmux", "-S", str(server.socket_of(folder / "client"))]

    def run(*command: str) -> str:
        return subprocess.run([*tmux, *command], capture_output=True, text=True, check=True).stdout

    async def write(text: str) -> object:
        return run("send-keys", "-l", text)

    async def read() -> str:
        return run("capture-pane", "-p", "-J")

    try:
        return {"client process: type and see": await type_and_see(write, read, rounds)}
    finally:
        await made.stop()


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="mrsi-bench-") as folder:
        results = await control_mode(Path(folder), rounds)
        results |= await client_commands(Path(folder), rounds)
    for name, taken in results.items():
        print(f"{name:32} {statistics.median(taken):8.2f} ms   (median of {len(taken)})")
    client = statistics.median(results["client process: type and see"])
    print(f"\nclient / control mode   {client / statistics.median(results['control mode: type and see']):6.1f} x")
    print(f"client / TmuxTerminal   {client / statistics.median(results['TmuxTerminal: send and read']):6.1f} x")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
