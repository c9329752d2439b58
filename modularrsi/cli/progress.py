"""What people see while a run goes on, and at its end. Live on a terminal, one line per finished rollout elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_SHOWN = 12
SIMULATED_NOTE = "SIMULATED: the numbers are the harness's under the simulated model, and no real model's"


class Progress:
    """Hears of the run (`runs.launch.Listener`). Everything goes to standard error."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._phases: dict[str, tuple[str, float]] = {}
        self._planned = self._done = self._passed = self._unscored = 0
        self._began = time.monotonic()
        self._events: list[str] = []
        self._live = Live(
            console=self._console, get_renderable=self._render, refresh_per_second=4, transient=True
        ) if self._console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line that stays."""
        self._console.print(escape(text), soft_wrap=True)

    def planned(self, total: int, done: int) -> None:
        self._planned, self._done = total, done

    def phase(self, rollout: str, phase: str, result: Any | None) -> None:
        """A rollout has entered a phase; with a result it is finished."""
        if result is None:
            self._phases[rollout] = (phase, time.monotonic())
            return
        self._phases.pop(rollout, None)
        if phase == "stopped":
            self.say(f"{rollout}  stopped: {_one_line(result.failure.message)}")
            return
        self._done += 1
        self._passed += result.reward is not None and result.reward >= 1.0
        self._unscored += result.reward is None
        self._console.print(finished_line(result), soft_wrap=True)

    def model_event(self, text: str) -> None:
        """A retry, a rate limit: seen, not hidden."""
        self._events = [*self._events[-2:], text]
        if self._live is None:
            self.say(text)

    def _render(self) -> Group:
        now = time.monotonic()
        head = Text(
            f"{self._done}/{self._planned} done · {self._passed} passed · {self._unscored} unscored · "
            f"{now - self._began:.0f} s{self._remaining(now)}"
        )
        rows = [
            Text(f"  {phase:<10} {now - since:5.0f} s  {rollout}", style="dim")
            for rollout, (phase, since) in list(self._phases.items())[:_SHOWN]
        ]
        more = len(self._phases) - _SHOWN
        if more > 0:
            rows.append(Text(f"  … and {more} more", style="dim"))
        return Group(head, *rows, *(Text(f"  {event}", style="yellow") for event in self._events))

    def _remaining(self, now: float) -> str:
        """Only what the finished rollouts of this process allow to say."""
        if not self._done or self._done >= self._planned:
            return ""
        left = (now - self._began) / self._done * (self._planned - self._done)
        return f" · about {left:.0f} s left"


def finished_line(result: Any) -> Text:
    seconds = sum(result.seconds.values())
    ending = result.steps[-1].ending if result.steps else "not started"
    line = Text()
    line.append(f"{_word(result.reward):>9}", style=_colour(result.reward))
    line.append(f"  {result.id}  {ending}  {seconds:.1f} s")
    if result.failure:
        line.append(f"  [{result.failure.owner}: {result.failure.cause}] {_one_line(result.failure.message)}",
                    style="yellow")
    return line


def print_report(report: Any) -> None:
    """The end of a run, on standard output."""
    console = Console(highlight=False, soft_wrap=True)
    if report.simulated:
        console.print(SIMULATED_NOTE, style="bold magenta")
    table = Table(box=None, pad_edge=False)
    for heading in ("task", "rewards", "group"):
        table.add_column(heading)
    finished = {rollout["id"] for rollout in report.rollouts}
    for row in report.tasks:
        done = [f"{row.task}/{attempt}" in finished for attempt in range(1, len(row.rewards) + 1)]
        words = [_word(reward) if known else "open" for reward, known in zip(row.rewards, done, strict=True)]
        table.add_row(escape(row.task), " ".join(words), row.kind if any(done) else "open")
    console.print(table)
    console.print(f"\nscored {report.scored} of {report.planned}, passed {report.passed}, unscored {report.unscored}")
    if report.mean_reward is not None:
        low = "" if not report.unscored else f" (counting the unscored as failures: {report.worst_case:.3f})"
        console.print(f"mean reward {report.mean_reward:.3f}{low}")
    if report.prompt_tokens is not None:
        cost = "unknown (no price for this model)" if report.cost_usd is None else f"${report.cost_usd:.4f}"
        console.print(f"tokens {report.prompt_tokens} in, {report.completion_tokens} out; cost {cost}")
    if not report.complete:
        console.print("not complete; the same command, with a higher cap if one was reached, goes on where it stopped",
                      style="yellow")
    if report.rollouts:
        worst = next((r for r in report.rollouts if r["reward"] != 1.0), report.rollouts[0])
        console.print(f"read one: modularrsi show {report.run}/{worst['id']}", markup=False)


def _word(reward: float | None) -> str:
    return "unscored" if reward is None else f"{reward:g}"


def _colour(reward: float | None) -> str:
    return "yellow" if reward is None else "green" if reward >= 1.0 else "red"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]
