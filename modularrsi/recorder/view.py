"""A trajectory as people read it: the few facts of each step, whatever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricsView:
    """Tokens, and cost in US dollars; None = not recorded."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class CommandView:
    """One tool call. `text` are the keystrokes or the arguments as JSON; `duration` in seconds where there is one."""

    name: str
    text: str
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class StepView:
    """`source` is "system", "user" or "agent"; `observation` joins what all its results say; `subagents` are the ids or
    paths that the step refers to."""

    number: int
    source: str
    message: str
    reasoning: str = ""
    commands: tuple[CommandView, ...] = ()
    observation: str = ""
    metrics: MetricsView = MetricsView()
    model: str = ""
    timestamp: str = ""
    subagents: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TrajectoryView:
    """`warnings` say what was odd in the file and was passed over; `continued_in` names the file that goes on."""

    schema: str
    session: str
    agent: str
    version: str
    model: str
    steps: tuple[StepView, ...]
    totals: MetricsView = MetricsView()
    ending: str = ""
    continued_in: str = ""
    subagents: tuple[TrajectoryView, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
