"""Tasks: Harbor's task format, read, checked and frozen."""

from modularrsi.tasks.load import find_tasks, load_task
from modularrsi.tasks.model import Task, TaskStep

__all__ = ["Task", "TaskStep", "find_tasks", "load_task"]
