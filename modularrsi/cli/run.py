"""`modularrsi run`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from modularrsi.cli.lazy import load
from modularrsi.cli.options import ApiKeyEnv, BaseUrl, Json, Model, RunsDir
from modularrsi.cli.output import print_json
from modularrsi.cli.progress import Progress, print_report

_AGENTS = ("harness", "oracle", "nop")
_CAGES = ("auto", "bubblewrap", "docker", "landlock")
_SANDBOXES = ("auto", "docker", "bubblewrap", "process")


def _one_of(*words: str) -> Any:
    def check(value: str) -> str:
        if value not in words:
            raise typer.BadParameter(f"must be one of {', '.join(words)}")
        return value

    return check


def run(
    tasks: Annotated[list[Path], typer.Argument(metavar="TASKS", help="Task folders, or folders of task folders.")],
    agent: Annotated[
        str,
        typer.Option("--agent", "-a", callback=_one_of(*_AGENTS), metavar="|".join(_AGENTS), help="Who acts."),
    ] = "harness",
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, max=100_000, help="Rollouts of each task.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", "-n", min=1, help="Rollouts at a time.")] = 4,
    sandbox: Annotated[
        str,
        typer.Option("--sandbox", callback=_one_of(*_SANDBOXES), metavar="|".join(_SANDBOXES),
                     help="Where tasks run; auto = bubblewrap if every task allows it, else docker."),
    ] = "auto",
    cage: Annotated[
        str,
        typer.Option("--cage", callback=_one_of(*_CAGES), metavar="|".join(_CAGES),
                     help="The walls around the harness; auto = the strongest that works here."),
    ] = "auto",
    model: Model = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "",
    temperature: Annotated[float | None, typer.Option(help="Sent only if given.")] = None,
    reasoning_effort: Annotated[str | None, typer.Option(help="Sent only if given.")] = None,
    max_output_tokens: Annotated[int | None, typer.Option(min=1, help="Of one reply.")] = None,
    context_tokens: Annotated[int | None, typer.Option(min=1, help="The model's window.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file with [models.…] tables, instead of --model.")] = None,
    max_turns: Annotated[int, typer.Option(min=1, help="Turns of one rollout.")] = 200,
    timeout_multiplier: Annotated[
        float, typer.Option(min=0.01, max=10_000, help="Times every time limit of the tasks.")
    ] = 1.0,
    library: Annotated[Path | None, typer.Option(help="A library of functions; default: the seed.")] = None,
    composition: Annotated[Path | None, typer.Option(help="A JSON file: point -> functions.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Cap in US dollars.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Cap in tokens, prompts and replies together.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Cap in model calls.")] = None,
    name: Annotated[str | None, typer.Option("--run", help="The run's name; the same name goes on with it.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Start anew even if the same run is unfinished.")] = False,
    retry: Annotated[
        str, typer.Option(callback=_one_of("", "unscored"), metavar="unscored",
                          help="Run the unscored rollouts of a finished run again.")
    ] = "",
    no_cage: Annotated[
        bool, typer.Option("--no-cage", help="Allow a worker without walls where no cage works.")
    ] = False,
    no_isolation: Annotated[
        bool, typer.Option("--no-isolation", help="Allow --sandbox process: trusted tasks only.")
    ] = False,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run an agent on tasks, score it, and keep trajectories. The same command goes on after any interruption."""
    request = load("runs.request").RunRequest(
        tasks=tuple(tasks), agent=agent, attempts=attempts, concurrency=concurrency, sandbox=sandbox, cage=cage,
        model=model, base_url=base_url, api_key_env=api_key_env or None, temperature=temperature,
        reasoning_effort=reasoning_effort, max_output_tokens=max_output_tokens, context_tokens=context_tokens,
        models_file=models, max_turns=max_turns, timeout_multiplier=timeout_multiplier, library=library,
        composition=composition, max_cost_usd=max_cost, max_tokens=max_tokens, max_calls=max_calls, name=name,
        new=new, retry_unscored=retry == "unscored", allow_no_cage=no_cage, allow_no_isolation=no_isolation,
        runs_dir=runs_dir,
    )
    acting = load("runs.harness_acting").HarnessActing(request) if agent == "harness" else (
        load("runs.acting").reference_acting(request)
    )
    with Progress(quiet=as_json and not sys.stderr.isatty()) as progress:
        try:
            done = asyncio.run(load("runs.launch").launch(request, acting, progress))
        except KeyboardInterrupt:
            progress.say("interrupted; the same command goes on where it stopped")
            raise typer.Exit(130) from None
    if as_json:
        print_json(done.to_json())
    else:
        print_report(done)
    if done.stopped:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"stopped: {done.stopped}", style="yellow", markup=False
        )
    raise typer.Exit(_exit_code(done))


def _exit_code(done: Any) -> int:
    if not done.complete:
        return 3
    return 1 if done.unscored else 0
