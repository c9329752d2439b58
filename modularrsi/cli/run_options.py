"""The options of `modularrsi run`, each with its type, its bounds and its one line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_AGENTS = ("harness", "oracle", "nop")
_CAGES = ("auto", "bubblewrap", "docker", "landlock")
_SANDBOXES = ("auto", "docker", "bubblewrap", "process")


def _one_of(*words: str) -> Any:
    def check(value: str) -> str:
        if value not in words:
            raise typer.BadParameter(f"must be one of {', '.join(words)}")
        return value

    return check


Tasks = Annotated[list[Path], typer.Argument(metavar="TASKS", help="Task folders, or folders of task folders.")]
Agent = Annotated[
    str,
    typer.Option("--agent", "-a", callback=_one_of(*_AGENTS), metavar="|".join(_AGENTS), help="Who acts."),
]
Attempts = Annotated[int, typer.Option("--attempts", "-k", min=1, max=100_000, help="Rollouts of each task.")]
Concurrency = Annotated[int, typer.Option("--concurrency", "-n", min=1, help="Rollouts at a time.")]
Sandbox = Annotated[
    str,
    typer.Option("--sandbox", callback=_one_of(*_SANDBOXES), metavar="|".join(_SANDBOXES),
                 help="Where tasks run; auto = bubblewrap if every task allows it, else docker."),
]
Cage = Annotated[
    str,
    typer.Option("--cage", callback=_one_of(*_CAGES), metavar="|".join(_CAGES),
                 help="The walls around the harness; auto = the strongest that works here."),
]
Temperature = Annotated[float | None, typer.Option(help="Sent only if given.")]
ReasoningEffort = Annotated[str | None, typer.Option(help="Sent only if given.")]
MaxOutputTokens = Annotated[int | None, typer.Option(min=1, help="Of one reply.")]
ContextTokens = Annotated[int | None, typer.Option(min=1, help="The model's window.")]
Models = Annotated[Path | None, typer.Option(help="A TOML file with [models.…] tables, instead of --model.")]
Simulate = Annotated[
    list[str],
    typer.Option("--simulate", metavar="KEY=VALUE",
                 help="Sets --model simulated: seed=7, habits=none, habits.early_completion=1 … Repeatable."),
]
MaxTurns = Annotated[int, typer.Option(min=1, help="Turns of one rollout.")]
TimeoutMultiplier = Annotated[
    float, typer.Option(min=0.01, max=10_000, help="Times every time limit of the tasks.")
]
Library = Annotated[Path | None, typer.Option(help="A library of functions; default: the seed.")]
Composition = Annotated[Path | None, typer.Option(help="A JSON file: point -> functions.")]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Cap in US dollars.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Cap in tokens, prompts and replies together.")]
MaxCalls = Annotated[int | None, typer.Option(min=1, help="Cap in model calls.")]
Name = Annotated[str | None, typer.Option("--run", help="The run's name; the same name goes on with it.")]
New = Annotated[bool, typer.Option("--new", help="Start anew even if the same run is unfinished.")]
Retry = Annotated[
    str, typer.Option(callback=_one_of("", "unscored"), metavar="unscored",
                      help="Run the unscored rollouts of a finished run again.")
]
NoCage = Annotated[
    bool, typer.Option("--no-cage", help="Allow a worker without walls where no cage works.")
]
NoIsolation = Annotated[
    bool, typer.Option("--no-isolation", help="Allow --sandbox process: trusted tasks only.")
]
