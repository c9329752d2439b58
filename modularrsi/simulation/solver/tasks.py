"""Which task a question is about, and the way to its solution."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from modularrsi.simulation.question import CannotAnswer, Question
from modularrsi.simulation.solver.script import read_script
from modularrsi.simulation.solver.walkthrough import FILE, Walkthrough, read_walkthrough
from modularrsi.tasks.model import Task

_Place = tuple[Task, Path]
"""A task, and the folder of the solution (of one of its steps) that is asked for."""


class Ways:
    """The tasks that the simulator knows. Thread-safe; each way is read once, when it is first needed."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._read: dict[Path, Walkthrough] = {}
        self._lock = threading.Lock()

    def find(self, question: Question) -> Walkthrough:
        """By the place of the call (`TASK/ATTEMPT/STEP`), or else by the instruction in the messages.

        Raises CannotAnswer when neither tells, and for a task without a solution.
        """
        place = self._by_scope(question.scope) or self._by_text(question)
        if place is None:
            known = ", ".join(sorted(self._tasks)[:5]) or "none"
            raise CannotAnswer(f"the simulator does not know the task of this request (scope {question.scope!r}); "
                               f"it knows: {known}. Name the tasks' folders when you start it")
        task, folder = place
        with self._lock:
            if folder not in self._read:
                self._read[folder] = _read(folder, task.solution_env)
            return self._read[folder]

    def _by_scope(self, scope: str) -> _Place | None:
        name, _, rest = scope.rpartition("/")[0].rpartition("/")
        task = self._tasks.get(name)
        if task is None or not rest:
            return None
        number = scope.rpartition("/")[2]
        return task, _folder(task, int(number) if number.isdigit() else 0)

    def _by_text(self, question: Question) -> _Place | None:
        """The longest instruction that stands in the messages."""
        text = _flat(question.text)
        best: tuple[int, _Place] | None = None
        for task in self._tasks.values():
            for number, instruction in enumerate([step.instruction for step in task.steps] or [task.instruction]):
                flat = _flat(instruction)
                if flat and flat in text and (best is None or len(flat) > best[0]):
                    best = (len(flat), (task, _folder(task, number)))
        return best[1] if best else None


def _folder(task: Task, number: int) -> Path:
    """Where the solution of a step is (a task without steps has one)."""
    if task.steps:
        step = task.steps[min(number, len(task.steps) - 1)]
        return step.solution or task.path / "steps" / step.name / "solution"
    return task.path / "solution"


def _read(folder: Path, env: Mapping[str, str]) -> Walkthrough:
    """`env`: variables that only the reference solution is given (`[solution.env]` of the task)."""
    if (folder / FILE).is_file():
        return read_walkthrough(folder / FILE)
    if (folder / "solve.sh").is_file():
        return read_script(folder / "solve.sh", env)
    raise CannotAnswer(f"{folder}: the task has no reference solution (solve.sh or {FILE}), which the simulated solver "
                       "plays")


def _flat(text: str) -> str:
    return " ".join(text.split())
