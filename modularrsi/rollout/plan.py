"""What to roll out, decided before anything starts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modularrsi.sandbox.base import Resources, SandboxSpec
from modularrsi.tasks.model import Task


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """`id` is `<task>/<attempt>` within its run and stays the same when the run is resumed. `folder` is private to the
    rollout and is removed at its end; `labels` mark every resource, so that a reaper finds them."""

    id: str
    task: Task
    attempt: int
    folder: Path
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_multiplier: float = 1.0
    retry: int = 0

    @property
    def scope(self) -> str:
        """Names the rollout's model calls. A rollout that is resumed finds its recorded calls under it; one that is
        retried because it was unscored must not, or it would be told the same failure again."""
        return f"{self.id}~{self.retry}" if self.retry else self.id

    def sandbox_spec(self) -> SandboxSpec:
        environment = self.task.config.environment
        return SandboxSpec(
            name=self.short_name,
            environment_dir=self.task.path / "environment",
            scratch=self.folder,
            docker_image=environment.docker_image,
            environment_digest=self.task.environment_digest,
            workdir=environment.workdir,
            env=self.task.env,
            network=self.task.wants_network,
            resources=Resources(
                cpus=environment.cpus, memory_mb=environment.memory_mb, storage_mb=environment.storage_mb
            ),
            build_timeout_sec=environment.build_timeout_sec * self.timeout_multiplier,
            labels=self.labels,
            hostname=_hostname(self.task.name),
        )

    @property
    def short_name(self) -> str:
        """Unique on this machine, fit for a container, a cgroup and a socket's folder."""
        run = self.labels.get("modularrsi.run", "")
        return "mrsi-" + hashlib.sha256(f"{run}\0{self.id}".encode()).hexdigest()[:16]


def _hostname(task: str) -> str:
    """The same for every rollout of a task: a shell prompt shows it, and prompts must repeat for a replay to fit."""
    word = "".join(c if c.isalnum() else "-" for c in task.rsplit("/", 1)[-1].lower()).strip("-")
    return word[:32].strip("-") or "task"
