"""The simulator as a part of a run: served from the run's own process, on a free port of the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from modularrsi.gateway.connect import GatewaySettings
from modularrsi.simulation.brain import Brain
from modularrsi.simulation.server import SimulatorServer
from modularrsi.simulation.settings import Simulation
from modularrsi.tasks.model import Task

URL = "http://simulated.invalid/v1"
"""Stands for the embedded server in settings and contracts: its port is another each time, and none of a run's terms.
(`.invalid` is no name that can be served, RFC 2606.)"""


@asynccontextmanager
async def serving(
    settings: GatewaySettings, simulation: Simulation, tasks: Sequence[Task]
) -> AsyncIterator[GatewaySettings]:
    """The same settings, with the models of `URL` at the address where they are served meanwhile."""
    if all(model.url != URL for model in settings.models.values()):
        yield settings
        return
    async with SimulatorServer(Brain(simulation, tasks), simulation) as server:
        models = settings.models.items()
        at = {role: replace(model, base_url=server.url) if model.url == URL else model for role, model in models}
        yield replace(settings, models=at)
