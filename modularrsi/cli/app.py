"""The commands and the one place where errors become exit codes.

0 done, every rollout scored · 1 done, some unscored · 2 the user's mistake · 3 a cap was reached
4 the store is damaged or in use · 130 interrupted
"""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from modularrsi.cli import doctor, run, show, simulate, simulation
from modularrsi.errors import ModularRSIError, StoreError

app = typer.Typer(
    name="modularrsi",
    help="Improve the harness around a language-model agent: run it, score it, read what happened.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("show")(show.show)
app.command("verify")(show.verify)
app.command("doctor")(doctor.doctor)
app.command("simulate")(simulate.simulate)
app.add_typer(simulation.group, name="simulation")


def main() -> None:
    """Entry point. A `ModularRSIError` is one line on standard error; anything else is a fault of ours, with its
    traceback."""
    try:
        app()
    except StoreError as error:
        _fail(error, 4)
    except ModularRSIError as error:
        _fail(error, 2)


def _fail(error: Exception, code: int) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {error}", style="red", markup=False)
    sys.exit(code)
