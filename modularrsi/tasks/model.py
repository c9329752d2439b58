"""A loaded task: everything the engine needs to know of a task folder, checked and frozen.

An agent never sees this class: what it may know is `harness.types.Task`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.types import McpServer, Skill
from modularrsi.tasks.config import Healthcheck, TaskConfig
from modularrsi.tasks.needs import unsupported

__all__ = ["Healthcheck", "Task", "TaskStep"]


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One step of a multi-step task. Folders are on the host; `workdir` (None = there is none) is copied into the
    working folder before the step, and its `setup.sh` run. Time limits None = as in the task's own tables."""

    name: str
    instruction: str
    tests: Path
    solution: Path | None
    workdir: Path | None
    min_reward: float | Mapping[str, float] | None
    healthcheck: Healthcheck | None
    agent_timeout_sec: float | None
    agent_user: str | int | None
    verifier_timeout_sec: float | None
    verifier_user: str | int | None
    verifier_env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Task:
    """`instruction` is without canary lines (that of the first step when there are steps and no other).

    `digest`             of every file of the folder: the identity of the task in contracts and certificates
    `environment_digest` of what the environment is built from: `environment/` and `docker_image`
    `env`, `verifier_env`, `solution_env`  with `${VAR}` filled in; may hold secrets of the user
    `host_values`        the values that came from the user's environment, for the redactor
    `protected`          paths inside the sandbox that are put back before the tests run
    `warnings`           what was ignored; `problems`: why the task cannot be scored (a rollout will be None)
    """

    name: str
    path: Path
    instruction: str
    config: TaskConfig
    digest: str
    environment_digest: str
    steps: tuple[TaskStep, ...] = ()
    skills: tuple[Skill, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    protected: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    verifier_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    solution_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    host_values: tuple[str, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def wants_network(self) -> bool:
        """Only a task that says `public` gets a network. (Harbor's own default is public; here silence means none.)"""
        return "public" in (self.config.environment.network_mode, self.config.agent.network_mode)

    def unsupported(self, kind: str) -> list[str]:
        """Why a sandbox of this kind (`docker`, `bubblewrap`, `process`) cannot run the task; empty = it can."""
        return unsupported(self.config, self.path / "environment", kind)
