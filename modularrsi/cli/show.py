"""`modularrsi show` and `modularrsi verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from modularrsi.cli.lazy import load
from modularrsi.cli.options import Json
from modularrsi.cli.output import print_json
from modularrsi.cli.progress import SIMULATED_NOTE, print_report
from modularrsi.errors import UserError


def show(
    target: Annotated[
        Path, typer.Argument(help="A run's folder, one of its rollouts (RUN/TASK/ATTEMPT), or a trajectory file.")
    ],
    step: Annotated[int | None, typer.Option("--step", min=1, help="Only this step, in full.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Read a run, or the trajectory of one rollout, in the terminal."""
    found = load("runs.find").find(target)
    if found.report is not None:
        print_json(found.report.to_json()) if as_json else print_report(found.report)
        return
    if as_json:
        documents = found.documents if step is None else [_only(document, step) for document in found.documents]
        simulated = any(document.get("extra", {}).get("simulated") for document in found.documents)
        print_json({"simulated": simulated, "rollout": found.rollout, "trajectories": documents})
        return
    load("cli.trajectory").render(found, Console(highlight=False, soft_wrap=True), step, full)


def _only(trajectory: dict[str, Any], number: int) -> dict[str, Any]:
    """The trajectory with one of its steps. Raises UserError when it has no such step."""
    steps = trajectory["steps"]
    if number > len(steps):
        raise UserError(f"there is no step {number}; the trajectory has steps 1 to {len(steps)}")
    return {**trajectory, "steps": [steps[number - 1]]}


def verify(run: Annotated[Path, typer.Argument(help="A run's folder.")], as_json: Json = False) -> None:
    """Check a run's chain, digests and rewards. Prints what does not agree; exit code 1 if anything does not."""
    problems: list[Any] = load("runs.audit").audit(run)
    simulated = not problems and load("runs.report").is_simulated(load("runs.folder").read_state(run))
    if as_json:
        found = [{"where": problem.where, "message": problem.message} for problem in problems]
        print_json({"simulated": None if problems else simulated, "problems": found})
    else:
        _print_verdict(problems, simulated)
    if problems:
        raise typer.Exit(1)


def _print_verdict(problems: list[Any], simulated: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for problem in problems:
        console.print(f"{problem.where}: {problem.message}", style="red", markup=False)
    console.print("verified: chain, digests and rewards agree" if not problems else f"{len(problems)} problems")
    if simulated:
        console.print(SIMULATED_NOTE, style="bold magenta")
