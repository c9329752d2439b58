"""From a request to a report: check everything, find or make the run, clear what a killed engine left, execute.

Nothing is started before everything that can be checked has been: tasks, sandbox, cage, model, key, caps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from modularrsi.errors import Failure, UserError
from modularrsi.redact import Redactor
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.rollout.result import RolloutResult
from modularrsi.runs.acting import Acting, Scene
from modularrsi.runs.contract import Contract, task_digests, versions
from modularrsi.runs.execute import Machinery, execute
from modularrsi.runs.folder import open_run
from modularrsi.runs.leftovers import LABEL, leave, run_scratch, take_over
from modularrsi.runs.place import Place, choose_place
from modularrsi.runs.report import Report, report
from modularrsi.runs.request import RunRequest
from modularrsi.runs.state import RunState, reduce
from modularrsi.sandbox import make_sandbox
from modularrsi.sandbox.base import Sandbox, SandboxSpec
from modularrsi.store import RunStore
from modularrsi.tasks.load import find_tasks
from modularrsi.tasks.model import Task


class Listener(Protocol):
    """Who watches a run (the command line's progress, a notebook, nobody)."""

    def say(self, text: str) -> None: ...

    def planned(self, total: int, done: int) -> None: ...

    def phase(self, rollout: str, phase: str, result: RolloutResult | None) -> None: ...

    def model_event(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Prepared:
    request: RunRequest
    tasks: tuple[Task, ...]
    place: Place
    acting: Acting
    contract: Contract


async def launch(request: RunRequest, acting: Acting, listener: Listener) -> Report:
    """Do what the request says, with who acts in it (`runs.acting`, `runs.harness_acting`).

    Raises UserError for whatever is wrong with it, StoreError for the run's folder.
    """
    prepared = await _prepare(request, acting, listener)
    opened = open_run(request, prepared.contract)
    listener.say(opened.sentence)
    with RunStore(opened.folder) as store:
        return await _run(prepared, opened.name, store, listener)


async def _prepare(request: RunRequest, acting: Acting, listener: Listener) -> _Prepared:
    tasks = tuple(find_tasks(request.tasks))
    for note in _notes(tasks):
        listener.say(note)
    place = await choose_place(request, tasks)
    listener.say(f"sandbox: {place.kind} ({place.isolation})")
    if acting.sentence:
        listener.say(acting.sentence)
    contract = Contract(
        tasks=task_digests(tasks),
        attempts=request.attempts,
        sandbox=place.kind,
        isolation=place.isolation,
        agent=acting.describe(),
        models=acting.models(),
        timeout_multiplier=request.timeout_multiplier,
    )
    return _Prepared(request, tasks, place, acting, contract)


def _notes(tasks: Sequence[Task]) -> Iterator[str]:
    """What there is to say of the tasks' files; what many tasks share is said once."""
    sharing: dict[str, list[str]] = {}
    for task in tasks:
        for note in (*task.warnings, *task.problems):
            sharing.setdefault(note, []).append(task.name)
    for note, names in sharing.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: {note}"


async def _run(prepared: _Prepared, name: str, store: RunStore, listener: Listener) -> Report:
    request, run_key = prepared.request, str(store.folder.resolve())
    state = store.fold(reduce, RunState())
    if not state.planned:
        _create(store, prepared, [plan.id for plan in _plans(prepared, run_key, {})])
    if request.retry_unscored:
        for rollout in state.unscored:
            store.append("rollout.retried", {"id": rollout}, durable=True)
    state = store.fold(reduce, RunState())
    plans = _plans(prepared, run_key, state.retries)
    for problem in await take_over(prepared.place.kind, run_key):
        listener.say(problem)
    listener.planned(len(plans), len(state.finished))
    redactor = Redactor([*prepared.acting.secrets(), *(value for task in prepared.tasks for value in task.host_values)])
    async with AsyncExitStack() as stack:
        agent = await prepared.acting.agent(stack, store, Scene(name, prepared.tasks, redactor, listener.model_event))
        machinery = Machinery(
            agent=agent,
            make_sandbox=lambda spec: _sandbox(prepared.place.kind, spec),
            redactor=redactor,
            concurrency=request.concurrency,
            on_change=listener.phase,
        )
        stopped = None
        try:
            if state.open_rollouts or not state.complete:
                stopped = await execute(store, state, plans, machinery)
        finally:
            leave(run_key)
    if stopped is not None and stopped.owner == "model_service":
        raise UserError(_refused_key(prepared.contract, stopped))
    return report(str(store.folder), store.fold(reduce, RunState()), stopped.message if stopped else "")


def _refused_key(contract: Contract, failure: Failure) -> str:
    solver = contract.models.get("solver", {})
    place = solver.get("api_key_env") or solver.get("api_key_file")
    own = "name the key's environment variable (api_key_env)" if "base_url" in solver else "correct OPENAI_API_KEY"
    fix = f"correct {place}" if place else own
    return f"the model service refuses the key: {failure.message}; {fix} and repeat the command to go on"


def _sandbox(kind: str, spec: SandboxSpec) -> Sandbox:
    return make_sandbox(kind, spec)


def _create(store: RunStore, prepared: _Prepared, rollouts: Sequence[str]) -> None:
    store.append(
        "run.created",
        {
            "contract": prepared.contract.to_json(),
            "contract_digest": prepared.contract.digest,
            "rollouts": list(rollouts),
            "info": {"versions": versions(), "tasks": {task.name: str(task.path) for task in prepared.tasks}},
        },
        durable=True,
    )


def _plans(prepared: _Prepared, run_key: str, retries: Mapping[str, int]) -> list[RolloutPlan]:
    """All first attempts, then all second ones: a run that is stopped early has seen every task."""
    root = run_scratch(run_key)
    ids = [(task, attempt) for attempt in range(prepared.request.attempts) for task in prepared.tasks]
    return [
        RolloutPlan(
            id=f"{task.name}/{attempt + 1}",
            task=task,
            attempt=attempt,
            folder=root / str(number),
            labels={LABEL: run_key},
            timeout_multiplier=prepared.request.timeout_multiplier,
            retry=retries.get(f"{task.name}/{attempt + 1}", 0),
        )
        for number, (task, attempt) in enumerate(ids)
    ]
