"""A trajectory on the terminal: what the agent said, what it typed, what it then saw.

All text in it is hostile (a model's words, a sandbox's output): control sequences are taken out before anything is
printed, so that reading a trajectory can never move the reader's cursor, title or clipboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from harness.text import clean_text as clean
from modularrsi.errors import UserError
from modularrsi.recorder.view import CommandView, MetricsView, StepView, TrajectoryView

_LINES = 12
_BLANKS = re.compile(r"\n(?:[ \t]*\n){2,}")
_COLOURS = {"system": "magenta", "user": "cyan", "agent": "green"}


def render(found: Any, console: Console, step: int | None, full: bool) -> None:
    """Print every trajectory of a rollout, or one step of it in full. Raises UserError for a step that is not there."""
    if found.rollout is not None:
        console.print(_head(found.rollout))
    for number, trajectory in enumerate(found.trajectories, 1):
        title = trajectory.agent or "agent"
        more = f" · step {number} of {len(found.trajectories)}" if len(found.trajectories) > 1 else ""
        simulated = " · SIMULATED" if trajectory.model.startswith("simulated") else ""
        head = f"{title} {trajectory.version} · {trajectory.model or 'no model'}{simulated}{more}"
        console.print(Rule(Text(head), align="left"))
        for part in _chosen(trajectory, step):
            console.print(_step(part, full or step is not None))
        _foot(trajectory, console)
    if not found.trajectories:
        console.print("this agent keeps no trajectory", style="dim")
    if found.rollout is not None:
        _tests(found.rollout, console, full)


def _chosen(trajectory: TrajectoryView, step: int | None) -> tuple[StepView, ...]:
    if step is None:
        return trajectory.steps
    found = tuple(part for part in trajectory.steps if part.number == step)
    if not found:
        raise UserError(f"there is no step {step}; the trajectory has steps 1 to {len(trajectory.steps)}")
    return found


def _head(rollout: dict[str, Any]) -> Text:
    reward = rollout["reward"]
    line = Text(f"{rollout['id']}  reward ", style="bold")
    line.append("unscored" if reward is None else f"{reward:g}", style=_reward_colour(reward))
    line.append(f"  {rollout['sandbox']}, {sum(rollout['seconds'].values()):.1f} s", style="dim")
    if rollout["failure"]:
        failure = rollout["failure"]
        line.append(f"\n{failure['owner']}: {failure['cause']}: {clean(failure['message'])}", style="yellow")
    return line


def _step(step: StepView, full: bool) -> Text:
    colour = _COLOURS.get(step.source, "white")
    text = Text(f"\n[{step.number}] {step.source}", style=f"bold {colour}")
    if facts := _facts(step.metrics):
        text.append(f"  {facts}", style="not bold dim")
    for part in _parts(step, full):
        text.append("\n").append(part)
    return text


def _parts(step: StepView, full: bool) -> Iterator[Text]:
    if step.reasoning:
        yield Text(_shown(step.reasoning, full), style="italic dim")
    if step.message:
        yield Text(_shown(step.message, full))
    for command in step.commands:
        yield _command(command)
    if step.observation:
        yield Text(_indented(_shown(step.observation, full)), style="dim")


def _command(command: CommandView) -> Text:
    wait = "" if command.duration is None else f"  ({command.duration:g} s)"
    shown = clean(command.text).rstrip("\n")
    if command.name != "bash_command":
        return Text(f"  > {command.name} {shown}{wait}".rstrip(), style="bold yellow")
    return Text(f"  $ {shown or '(waits)'}{wait}", style="bold yellow")


def _foot(trajectory: TrajectoryView, console: Console) -> None:
    for warning in trajectory.warnings:
        console.print(Text(f"note: {warning}", style="yellow"))
    for sub in trajectory.subagents:
        console.print(Text(f"\nsub-agent {sub.agent}: {len(sub.steps)} steps, {_facts(sub.totals)}", style="magenta"))
    facts = _facts(trajectory.totals)
    ending = f"ended: {trajectory.ending}" if trajectory.ending else ""
    console.print(Text("\n" + "  ".join(part for part in (ending, facts) if part), style="bold"))


def _tests(rollout: dict[str, Any], console: Console, full: bool) -> None:
    for step in rollout["steps"]:
        if output := step["verifier_output"].strip():
            console.print(Rule(Text(f"tests{' of ' + step['name'] if step['name'] else ''}"), align="left"))
            console.print(Text(_shown(output, full), style="dim"))


def _facts(metrics: MetricsView) -> str:
    if metrics.prompt_tokens is None and metrics.completion_tokens is None:
        return ""
    cached = f" ({metrics.cached_tokens} cached)" if metrics.cached_tokens else ""
    cost = "" if metrics.cost_usd is None else f", ${metrics.cost_usd:.4f}"
    return f"{metrics.prompt_tokens or 0} in{cached}, {metrics.completion_tokens or 0} out{cost}"


def _shown(text: str, full: bool) -> str:
    lines = _BLANKS.sub("\n\n", clean(text).strip("\n")).splitlines()
    if full or len(lines) <= 2 * _LINES:
        return "\n".join(lines)
    left_out = f"… {len(lines) - 2 * _LINES} lines left out (--full) …"
    return "\n".join([*lines[:_LINES], left_out, *lines[-_LINES:]])


def _indented(text: str) -> str:
    return "\n".join("  | " + line for line in text.splitlines())


def _reward_colour(reward: float | None) -> str:
    return "yellow" if reward is None else "green" if reward >= 1.0 else "red"
