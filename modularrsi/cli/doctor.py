"""`modularrsi doctor`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from modularrsi.cli.lazy import load
from modularrsi.cli.options import ApiKeyEnv, BaseUrl, Json, Model
from modularrsi.cli.output import print_json

_MARKS = {"ok": ("ok", "green"), "missing": ("--", "yellow"), "broken": ("NO", "red")}


def doctor(
    model: Model = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "",
    call: Annotated[bool, typer.Option("--call", help="Also make one call of a few tokens to the model.")] = False,
    as_json: Json = False,
) -> None:
    """What works on this machine: sandboxes, cages, terminal, model endpoint, extras; and what mends the rest."""
    rows = list(load("doctor.checks").local_checks())
    if model:
        rows.append(asyncio.run(load("doctor.endpoint").endpoint(model, base_url, api_key_env or None, call)))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        _print(rows)
    if any(row.state == "broken" for row in rows):
        raise typer.Exit(1)


def _print(rows: list[Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        word, colour = _MARKS[row.state]
        detail = row.detail if row.state == "ok" or not row.fix else f"{row.detail}\n-> {row.fix}"
        table.add_row(f"[{colour}]{word}[/]", row.area, escape(row.name), escape(detail))
    Console(highlight=False).print(table)
