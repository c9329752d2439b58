"""The simulator on its own: settings and tasks in, a service until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from modularrsi.errors import UserError
from modularrsi.simulation.brain import Brain
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import Simulation, overlay, parse_assignments, read_simulation
from modularrsi.tasks.load import find_tasks
from modularrsi.toml import read_toml

_CONNECTIONS = 8192


def settings_from(file: Path | None, assignments: Sequence[str]) -> Simulation:
    """The table `simulation` of a file, with KEY=VALUE on top. Raises UserError."""
    table: dict[str, Any] = {}
    if file is not None:
        content = read_toml(file)
        if not isinstance(content.get("simulation"), dict):
            raise UserError(f"{file}: has no table [simulation]")
        table = content["simulation"]
    return read_simulation(overlay(table, parse_assignments(assignments)), f"{file or 'command line'}: simulation")


async def serve(
    simulation: Simulation, tasks: Sequence[Path], host: str, port: int, say: Callable[[str], None]
) -> None:
    """Until SIGINT or SIGTERM. Raises UserError for tasks that cannot be read and an address that cannot be had."""
    _many_connections()
    brain = Brain(simulation, find_tasks(tasks) if tasks else [])
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if not _local(host):
        say(f"warning: {host} can be reached from elsewhere; no password is asked, and replies show solutions of tasks")
    async with SimulatorServer(brain, simulation, host=host, port=port) as server:
        say(server.url)
        await stop.wait()


def _many_connections() -> None:
    """Each takes a file descriptor, and the usual limit of 1,024 is below what one benchmark run can open at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, _CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
