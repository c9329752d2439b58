"""What a user asks for: the arguments of `modularrsi run`, or of a Python caller, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modularrsi.agents.base import AgentKind


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Nothing is checked here; `runs.launch` does, and raises UserError. None = the default or "not sent"."""

    tasks: tuple[Path, ...]
    agent: AgentKind = "harness"
    attempts: int = 1
    concurrency: int = 4
    sandbox: str = "auto"
    cage: str = "auto"
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    models_file: Path | None = None
    simulate: tuple[str, ...] = ()
    max_turns: int = 200
    timeout_multiplier: float = 1.0
    library: Path | None = None
    composition: Path | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    name: str | None = None
    new: bool = False
    retry_unscored: bool = False
    allow_no_cage: bool = False
    allow_no_isolation: bool = False
    runs_dir: Path = Path("runs")
