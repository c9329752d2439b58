"""A task as a list of steps: one for an ordinary task, several for a multi-step one (Harbor's `[[steps]]`)."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Sandbox
from modularrsi.tasks.model import Healthcheck, Task
from modularrsi.tasks.scripts import staged_scripts

_SETUP_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Step:
    """Everything one step needs. Times in seconds; `agent_sec` None = the task sets no limit. `workdir_files` are
    copied in before it."""

    name: str
    instruction: str
    tests: Path
    solution: Path | None
    agent_sec: float | None
    agent_user: str | int | None
    verifier_sec: float
    verifier_env: Mapping[str, str]
    verifier_user: str | int | None
    min_reward: float | Mapping[str, float] | None = None
    workdir_files: Path | None = None
    healthcheck: Healthcheck | None = None

    def passes(self, reward: float | None, entries: Mapping[str, float]) -> bool:
        """Whether the next step may begin."""
        if reward is None:
            return False
        if self.min_reward is None:
            return True
        if isinstance(self.min_reward, Mapping):
            return all(entries.get(name, float("-inf")) >= least for name, least in self.min_reward.items())
        return reward >= self.min_reward


async def prepare_step(sandbox: Sandbox, step: Step) -> None:
    """Copy the step's files into the working folder, run its setup, wait until it is healthy."""
    if step.workdir_files is not None:
        with staged_scripts(step.workdir_files) as staged:
            await sandbox.upload_dir(staged, sandbox.workdir)
        if (step.workdir_files / "setup.sh").is_file():
            await _setup(sandbox)
    if step.healthcheck is not None:
        await _wait_until_healthy(sandbox, step.healthcheck)


async def _setup(sandbox: Sandbox) -> None:
    script = shlex.quote(f"{sandbox.workdir.rstrip('/')}/setup.sh")
    done = await sandbox.exec(f"chmod +x {script} && {script}", user="root", timeout_sec=_SETUP_SECONDS)
    if done.exit_code != 0:
        why = (done.stdout + done.stderr)[-500:].decode("utf-8", "replace")
        raise SandboxError(f"the step's setup.sh ended with {done.exit_code}: {why}", "build_failed")


async def _wait_until_healthy(sandbox: Sandbox, check: Healthcheck) -> None:
    """Docker's semantics: failures within the start period do not count; then `retries` in a row are too many."""
    began, failures = time.monotonic(), 0
    while True:
        done = await sandbox.exec(check.command, timeout_sec=check.timeout_sec)
        if done.exit_code == 0:
            return
        starting = time.monotonic() - began < check.start_period_sec
        failures += not starting
        if failures >= check.retries:
            raise SandboxError(f"the healthcheck {check.command!r} failed {failures} times in a row", "start_failed")
        await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)


def steps_of(task: Task) -> tuple[Step, ...]:
    """The steps in their order; an ordinary task is one step without a name."""
    if task.steps:
        return tuple(_named_step(task, index) for index in range(len(task.steps)))
    agent, verifier = task.config.agent, task.config.verifier
    return (
        Step(
            name="",
            instruction=task.instruction,
            tests=task.path / "tests",
            solution=task.path / "solution",
            agent_sec=agent.timeout_sec,
            agent_user=agent.user,
            verifier_sec=verifier.timeout_sec,
            verifier_env=task.verifier_env,
            verifier_user=verifier.user,
            healthcheck=task.config.environment.healthcheck,
        ),
    )


def _named_step(task: Task, index: int) -> Step:
    step = task.steps[index]
    agent, verifier = task.config.agent, task.config.verifier
    return Step(
        name=step.name,
        instruction=step.instruction,
        tests=step.tests,
        solution=step.solution,
        agent_sec=agent.timeout_sec if step.agent_timeout_sec is None else step.agent_timeout_sec,
        agent_user=agent.user if step.agent_user is None else step.agent_user,
        verifier_sec=verifier.timeout_sec if step.verifier_timeout_sec is None else step.verifier_timeout_sec,
        verifier_env=step.verifier_env,
        verifier_user=verifier.user if step.verifier_user is None else step.verifier_user,
        min_reward=step.min_reward,
        workdir_files=step.workdir,
        healthcheck=step.healthcheck or (task.config.environment.healthcheck if index == 0 else None),
    )
