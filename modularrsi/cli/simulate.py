"""`modularrsi simulate`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from modularrsi.cli.lazy import load
from modularrsi.cli.run_options import Simulate


def simulate(
    tasks: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[TASKS]", help="Folders of the tasks that the simulated solver is to know."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 = a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    seed: Annotated[int | None, typer.Option(min=0, help="The same as --simulate seed=N.")] = None,
    settings: Annotated[Path | None, typer.Option(help="A TOML file with a table [simulation].")] = None,
    simulate: Simulate = [],  # noqa: B006
) -> None:
    """Serve the simulated model to any client of OpenAI's chat completions, until it is stopped."""
    given = [*simulate, *([] if seed is None else [f"seed={seed}"])]
    serving = load("simulation.serve")
    simulation = serving.settings_from(settings, given)
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(text: str) -> None:
        if not text.startswith("http"):
            console.print(text, style="yellow", markup=False)
            return
        names = ", ".join(load("simulation.names").MODELS)
        console.print(f"SIMULATED models {names}; Ctrl-C stops", style="bold magenta")
        console.print(f"modularrsi run TASKS --model simulated-solver --base-url {text}", markup=False)
        print(text, flush=True)  # the one line of standard output, for scripts

    asyncio.run(serving.serve(simulation, tasks or [], host, port, say))
    sys.stdout.flush()
