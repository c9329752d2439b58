"""What a task asks of its sandbox that ours do not give: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modularrsi.tasks.config import AgentConfig, StepVerifier, TaskConfig, VerifierConfig

_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def unsupported(config: TaskConfig, environment: Path, kind: str) -> list[str]:
    """Reasons, each beginning with the field or file that asks for it."""
    reasons = [*_machine(config), *_files(config, environment, kind), *_network(config)]
    for where, verifier in _verifiers(config):
        reasons += _verifier(where, verifier)
    return reasons


def _machine(config: TaskConfig) -> Iterator[str]:
    environment = config.environment
    if environment.os == "windows":
        yield "environment.os: Windows sandboxes are not supported"
    if environment.gpus:
        yield f"environment.gpus: the task needs {environment.gpus} GPU(s), and sandboxes have none"
    if environment.tpu:
        yield "environment.tpu: sandboxes have no TPU"


def _files(config: TaskConfig, environment: Path, kind: str) -> Iterator[str]:
    compose = next((name for name in _COMPOSE if (environment / name).is_file()), None)
    if compose:
        yield f"environment/{compose}: environments of several containers are not supported"
    image = config.environment.docker_image
    if kind != "docker" and image and not (environment / "Dockerfile").is_file():
        yield f"environment.docker_image: {image} can only run in the docker sandbox"


def _network(config: TaskConfig) -> Iterator[str]:
    whole = config.environment.network_mode
    phases: list[tuple[str, AgentConfig | VerifierConfig | StepVerifier]] = [
        ("agent", config.agent), ("verifier", config.verifier)
    ]
    for step in config.steps:
        phases += [(f"steps.{step.name}.agent", step.agent), (f"steps.{step.name}.verifier", step.verifier)]
    if whole == "allowlist":
        yield "environment.network_mode: allowlist is not supported; set it to public or no-network"
    expected = whole or config.agent.network_mode or "no-network"
    for where, phase in phases:
        if phase.network_mode == "allowlist":
            yield f"{where}.network_mode: allowlist is not supported; set it to public or no-network"
        elif phase.network_mode not in (None, expected):
            yield f"{where}.network_mode: {phase.network_mode} differs from {expected}, and a sandbox has one network"


def _verifiers(config: TaskConfig) -> Iterator[tuple[str, VerifierConfig | StepVerifier]]:
    yield "verifier", config.verifier
    for step in config.steps:
        yield f"steps.{step.name}.verifier", step.verifier


def _verifier(where: str, verifier: VerifierConfig | StepVerifier) -> Iterator[str]:
    if verifier.environment_mode == "separate" or verifier.environment is not None:
        yield f"{where}.environment_mode: a separate environment for the tests is not supported"
    if verifier.collect:
        yield f"{where}.collect: collecting from services before the tests is not supported"
