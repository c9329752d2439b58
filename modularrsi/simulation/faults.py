"""Which fault a request meets: by script, in order of arrival; after it by rate, drawn for that very request.

A rate's draw is named by the place of the call, its body and how often this same request has come before. So the same
requests meet the same faults in any order, and a retry has its own luck.
"""

from __future__ import annotations

import threading
from collections import Counter

from modularrsi.simulation.chance import Chance
from modularrsi.simulation.chat import ChatRequest
from modularrsi.simulation.settings import Simulation

OK = "ok"


class FaultInjector:
    """Thread-safe. `met` counts what has happened so far, "ok" included."""

    def __init__(self, simulation: Simulation) -> None:
        self._faults = simulation.faults
        self._chance = Chance(simulation.seed).at("fault")
        self._arrived = 0
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.met: Counter[str] = Counter()

    def next(self, request: ChatRequest) -> str:
        """The fault of this request, or "ok"."""
        place = f"{request.question.scope}/{request.question.ordinal}/{request.digest}"
        with self._lock:
            position, self._arrived = self._arrived, self._arrived + 1
            before = self._seen[place]
            if self._faults.rates:
                self._seen[place] += 1
        scripted = position < len(self._faults.script)
        fault = self._faults.script[position] if scripted else self._drawn(place, before)
        with self._lock:
            self.met[fault] += 1
        return fault

    def _drawn(self, place: str, before: int) -> str:
        left = self._chance.draw(place, before)
        for fault, rate in self._faults.rates.items():
            left -= rate
            if left < 0:
                return fault
        return OK
