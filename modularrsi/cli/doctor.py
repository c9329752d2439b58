"""`modularrsi doctor`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

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
    """Say what works on this machine, and what mends the rest. Exit code 1 if something that is needed is broken.

    Looks at Python, tmux, sandboxes, cages, extras and folders, and at a model's endpoint when --model names one.
    """
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
    """One line a row, and the command that mends it on a line of its own, unbroken, so that it can be copied."""
    console = Console(highlight=False, soft_wrap=True)
    areas, names = max(len(row.area) for row in rows), max(len(row.name) for row in rows)
    for row in rows:
        word, colour = _MARKS[row.state]
        rest = f"{row.area:<{areas}}  {row.name:<{names}}  {row.detail}"
        console.print(f"[{colour}]{word}[/]  {escape(rest)}")
        if row.fix and row.state != "ok":
            console.print(f"      -> {escape(row.fix)}")
