"""`modularrsi run`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from modularrsi.cli import run_options as opt
from modularrsi.cli.lazy import load
from modularrsi.cli.options import ApiKeyEnv, BaseUrl, Json, Model, RunsDir
from modularrsi.cli.output import print_json
from modularrsi.cli.progress import Progress, print_report


def run(
    tasks: opt.Tasks,
    agent: opt.Agent = "harness",
    attempts: opt.Attempts = 1,
    concurrency: opt.Concurrency = 4,
    sandbox: opt.Sandbox = "auto",
    cage: opt.Cage = "auto",
    model: Model = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "",
    temperature: opt.Temperature = None,
    reasoning_effort: opt.ReasoningEffort = None,
    max_output_tokens: opt.MaxOutputTokens = None,
    context_tokens: opt.ContextTokens = None,
    models: opt.Models = None,
    simulate: opt.Simulate = [],  # noqa: B006
    max_turns: opt.MaxTurns = 200,
    timeout_multiplier: opt.TimeoutMultiplier = 1.0,
    library: opt.Library = None,
    composition: opt.Composition = None,
    max_cost: opt.MaxCost = None,
    max_tokens: opt.MaxTokens = None,
    max_calls: opt.MaxCalls = None,
    name: opt.Name = None,
    new: opt.New = False,
    retry: opt.Retry = "",
    no_cage: opt.NoCage = False,
    no_isolation: opt.NoIsolation = False,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run an agent on tasks, score it, and keep trajectories. The same command goes on after any interruption."""
    request = load("runs.request").RunRequest(
        tasks=tuple(tasks), agent=agent, attempts=attempts, concurrency=concurrency, sandbox=sandbox, cage=cage,
        model=model, base_url=base_url, api_key_env=api_key_env or None, temperature=temperature,
        reasoning_effort=reasoning_effort, max_output_tokens=max_output_tokens, context_tokens=context_tokens,
        models_file=models, simulate=tuple(simulate), max_turns=max_turns, timeout_multiplier=timeout_multiplier,
        library=library, composition=composition,
        max_cost_usd=max_cost, max_tokens=max_tokens, max_calls=max_calls, name=name,
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
