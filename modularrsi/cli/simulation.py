"""`modularrsi simulation …`: the simulated model as an instrument."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from modularrsi.cli.lazy import load
from modularrsi.cli.options import Json
from modularrsi.cli.output import print_json
from modularrsi.cli.run_options import Attempts, Concurrency
from modularrsi.errors import UserError

Folder = Annotated[Path, typer.Option(help="Where tasks, libraries and runs are kept.")]
Count = Annotated[int, typer.Option("--tasks", min=1, max=20, help="How many tasks.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the simulated model's luck.")]
Out = Annotated[Path | None, typer.Option(help="Write the table to this file too.")]

group = typer.Typer(
    no_args_is_help=True,
    help="The simulated model as an instrument: its habits, planted defects, and what is measured.",
)


@group.command("habits")
def habits(as_json: Json = False) -> None:
    """List the solver's habits: probability, occasion, what averts each, and where it was seen."""
    found = [asdict(habit) for habit in load("simulation.habits").HABITS.values()]
    print_json(found) if as_json else _print(found, ("name", "probability", "occasion", "does", "averted_by", "source"))


@group.command("faults")
def faults(as_json: Json = False) -> None:
    """List the faults that the service can be made to have."""
    known: dict[str, str] = load("simulation.settings").FAULTS
    found = [{"name": name, "the caller sees": text} for name, text in known.items()]
    print_json(found) if as_json else _print(found, ("name", "the caller sees"))


@group.command("defects")
def defects(as_json: Json = False) -> None:
    """List the planted defects: seed libraries with known faults."""
    found = [
        {"name": name, **asdict(fault)} for name, defect in load("instrument.defects").defects().items()
        for fault in defect.faults
    ]  # fmt: skip
    print_json(found) if as_json else _print(found, ("name", "function", "says", "signals"))


@group.command("plant")
def plant(
    name: Annotated[str, typer.Argument(help="A defect, as `modularrsi simulation defects` lists it.")],
    folder: Annotated[Path, typer.Argument(help="Where to write the library; must not exist or be empty.")],
) -> None:
    """Write the seed library with a planted defect."""
    load("instrument.defects").plant(name, folder)
    typer.echo(f"modularrsi run TASKS --model simulated --library {folder}")


@group.command("tasks")
def tasks(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")],
    count: Annotated[int, typer.Option("--count", help="How many of the twenty.")] = 20,
) -> None:
    """Write the tasks in which every habit has its occasion."""
    with _writing(folder):
        written = load("instrument.tasks").write_tasks(folder, count)
    typer.echo(f"{len(written)} tasks in {folder}")


@group.command("measure")
def measure(
    habit: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    folder: Folder = Path("measured"),
    count: Count = 20,
    attempts: Attempts = 2,
    concurrency: Concurrency = 4,
    seed: Seed = 0,
    pair: Annotated[bool, typer.Option("--aa/--no-aa", help="Also run the A/A pair.")] = True,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure what each habit alone costs, and what averting it gives back. Goes on where it stopped."""
    instrument, table = load("instrument.measure"), load("instrument.table")
    chosen = instrument.chosen(habit or [])
    _can_write(folder, out)
    plan = instrument.Plan(folder, count, attempts, concurrency, seed)
    with load("cli.progress").Progress(quiet=False) as progress:
        rows = instrument.measure(plan, chosen, progress)
        same = instrument.same_and_other(plan, progress) if pair else None
    text = table.markdown(plan, rows, same)
    _save(out, text)
    print_json(table.to_json(plan, rows, same)) if as_json else typer.echo(text)


@group.command("measure-defects")
def measure_defects(
    defect: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    folder: Folder = Path("measured"),
    count: Count = 8,
    attempts: Attempts = 2,
    concurrency: Concurrency = 4,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Measure what each planted defect costs under the habits that it feeds. Goes on where it stopped."""
    chosen = load("instrument.defects").chosen(defect or [])
    _can_write(folder, out)
    plan = load("instrument.measure").Plan(folder, count, attempts, concurrency, seed)
    with load("cli.progress").Progress(quiet=False) as progress:
        rows = load("instrument.felt").measure_defects(plan, chosen, progress)
    text = load("instrument.table").defects_markdown(plan, rows)
    _save(out, text)
    typer.echo(text)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises UserError for a place that cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another place") from error


def _can_write(folder: Path, out: Path | None) -> None:
    """Said before an hour of measuring, not after it. Raises UserError."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UserError(f"--out {out} cannot be written; name a file in a folder that is there")


def _save(out: Path | None, text: str) -> None:
    if out is not None:
        with _writing(out):
            out.write_text(text + "\n", encoding="utf-8")


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_shown(row[column]) for column in columns))
    Console(highlight=False).print(table)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value).replace("[", "\\[")
