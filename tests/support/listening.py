"""A listener that keeps what a run says, for assertions."""

from __future__ import annotations

from modularrsi.rollout.result import RolloutResult


class Heard:
    """Implements `modularrsi.runs.launch.Listener`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.phases: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.results: dict[str, RolloutResult] = {}
        self.total = self.done = 0

    def say(self, text: str) -> None:
        self.lines.append(text)

    def planned(self, total: int, done: int) -> None:
        self.total, self.done = total, done

    def phase(self, rollout: str, phase: str, result: RolloutResult | None) -> None:
        self.phases.append((rollout, phase))
        if result is not None:
            self.results[rollout] = result

    def model_event(self, text: str) -> None:
        self.events.append(text)
