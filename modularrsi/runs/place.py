"""Where the tasks of a run are played: one kind of sandbox for all of them, chosen before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modularrsi.errors import UserError
from modularrsi.runs.request import RunRequest
from modularrsi.sandbox import availability
from modularrsi.sandbox.base import Availability
from modularrsi.sandbox.preflight import refusals
from modularrsi.tasks.model import Task

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Place:
    """The kind and the line that says what it isolates (it goes into the contract)."""

    kind: str
    isolation: str


async def choose_place(request: RunRequest, tasks: Sequence[Task]) -> Place:
    """The sandbox asked for, or with "auto" the first of bubblewrap and docker that every task can run in.

    Raises UserError with every reason when there is none, and for `process` without its explicit flag.
    """
    found = {one.kind: one for one in availability()}
    if request.sandbox == "auto":
        return _first(found, ("bubblewrap", "docker"), tasks)
    if request.sandbox == "process" and not request.allow_no_isolation:
        raise UserError("--sandbox process isolates nothing: a task can read and delete your files. "
                        "Add --no-isolation if you trust every task, or use bubblewrap or docker")
    problems = _problems(found.get(request.sandbox), request.sandbox, tasks)
    if problems:
        raise UserError(_sentence(request.sandbox, problems))
    return Place(request.sandbox, found[request.sandbox].isolation)


def _first(found: dict[str, Availability], kinds: Sequence[str], tasks: Sequence[Task]) -> Place:
    refused = []
    for kind in kinds:
        problems = _problems(found.get(kind), kind, tasks)
        if not problems:
            return Place(kind, found[kind].isolation)
        refused.append(_sentence(kind, problems))
    raise UserError(" | ".join(refused) + " | `modularrsi doctor` shows what this machine lacks")


def _problems(found: Availability | None, kind: str, tasks: Sequence[Task]) -> list[str]:
    if found is None or not found.usable:
        why = "is not known" if found is None else f"does not work here: {found.detail}; {found.fix}"
        return [f"the sandbox {kind} {why}"]
    problems = []
    for task in tasks:
        reasons = [*task.unsupported(kind), *_environment(kind, task)]
        problems += [f"{task.name}: {reason}" for reason in reasons]
    return problems


def _environment(kind: str, task: Task) -> list[str]:
    config = task.config
    users = [config.agent.user, config.verifier.user, *(u for s in task.steps for u in (s.agent_user, s.verifier_user))]
    return refusals(kind, task.path / "environment", config.environment.docker_image, users)


def _sentence(kind: str, problems: Sequence[str]) -> str:
    more = f" … and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return f"{kind}: " + "; ".join(problems[:_SHOWN]) + more
