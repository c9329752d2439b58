"""Which policy plays which role."""

from __future__ import annotations

from collections.abc import Sequence

from modularrsi.gateway.settings import ModelRole
from modularrsi.simulation.analyst import Analyst
from modularrsi.simulation.composer import Composer
from modularrsi.simulation.editor import Editor
from modularrsi.simulation.question import Answer, Policy, Question
from modularrsi.simulation.reviewer import Reviewer
from modularrsi.simulation.settings import Simulation
from modularrsi.simulation.solver.policy import Solver
from modularrsi.tasks.model import Task


class Brain:
    """Answers for every role. Thread-safe: policies are pure, and what they cache is computed the same by all."""

    def __init__(self, simulation: Simulation, tasks: Sequence[Task]) -> None:
        self.simulation = simulation
        self._policies: dict[ModelRole, Policy] = {
            "solver": Solver(simulation, tasks),
            "analyst": Analyst(simulation),
            "editor": Editor(simulation),
            "reviewer": Reviewer(simulation),
            "composer": Composer(simulation),
        }

    def __call__(self, question: Question) -> Answer:
        """Raises CannotAnswer."""
        return self._policies[question.role](question)
