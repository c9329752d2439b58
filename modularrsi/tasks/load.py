"""From a task folder to a `Task`, and from paths to all the tasks in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from harness.types import McpServer
from modularrsi.digest import digest_tree, digest_value
from modularrsi.errors import UserError
from modularrsi.tasks.config import McpServerConfig, StepConfig, TaskConfig
from modularrsi.tasks.instruction import strip_canary
from modularrsi.tasks.interpolate import Interpolator
from modularrsi.tasks.model import Task, TaskStep
from modularrsi.tasks.parse import parse_config, unknown_keys
from modularrsi.tasks.skills import read_skills

WHAT_A_TASK_NEEDS = (
    "a task folder has task.toml, instruction.md, environment/ (or environment.docker_image in task.toml) "
    "and tests/test.sh"
)
_JUNK = {".git", "__pycache__", ".DS_Store", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_MAX_TEXT = 4_000_000


def load_task(path: Path, environ: Mapping[str, str] | None = None) -> Task:
    """Read and check one task folder. `environ` (default: the process's) fills `${VAR}` in the task's `env` tables.

    Raises UserError that names the file, the field and the fix, with every mistake of `task.toml` at once. A task
    without `tests/test.sh` loads, with the reason in `problems`: its rollouts are unscored, and the verifier owns that.
    """
    path = path.resolve()
    file = path / "task.toml"
    if not file.is_file():
        raise UserError(f"{path} has no task.toml; {WHAT_A_TASK_NEEDS}")
    config = parse_config(_text(file), file)
    _check_environment(path, config)
    filler = Interpolator(os.environ if environ is None else environ)
    env = {name: filler.fill(f"{name}.env", getattr(config, name).env)
           for name in ("environment", "verifier", "solution")}
    steps = tuple(_step(path, index, step, config, filler) for index, step in enumerate(config.steps))
    if filler.errors:
        raise UserError("\n".join(f"{file}: {error}" for error in filler.errors))
    skills_dir = config.environment.skills_dir
    skills = read_skills(path / "environment", skills_dir) if skills_dir else ()
    return Task(
        name=_name(path, config),
        path=path,
        instruction=_instruction(path, steps),
        config=config,
        digest=_digest(path, modes=False),
        environment_digest=_environment_digest(path, config),
        steps=steps,
        skills=skills,
        mcp_servers=tuple(_server(item) for item in config.environment.mcp_servers),
        protected=tuple(config.metadata.modularrsi.protected),
        env=env["environment"],
        verifier_env=env["verifier"],
        solution_env=env["solution"],
        host_values=tuple(sorted(filler.taken)),
        warnings=(*unknown_keys(config), *_warnings(config, bool(skills))),
        problems=tuple(_problems(path, steps)),
    )


def find_tasks(paths: Iterable[Path], environ: Mapping[str, str] | None = None) -> list[Task]:
    """The tasks of each path, which is a task folder or a folder of task folders (sorted by name, others ignored).

    Raises UserError with the mistakes of all broken tasks at once, when a path holds no task, and when two different
    folders hold tasks of one name.
    """
    tasks: list[Task] = []
    mistakes: list[str] = []
    for folder in dict.fromkeys(folder for path in paths for folder in _task_folders(path)):
        try:
            tasks.append(load_task(folder, environ))
        except UserError as error:
            mistakes.append(str(error))
    if mistakes:
        more = f"\n… and {len(mistakes) - 20} more tasks with mistakes" if len(mistakes) > 20 else ""
        raise UserError("\n".join(mistakes[:20]) + more)
    _check_names(tasks)
    return tasks


def _task_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; give a task folder or a folder of task folders")
    if (path / "task.toml").is_file():
        return [path.resolve()]
    found = [child.resolve() for child in sorted(path.iterdir()) if (child / "task.toml").is_file()]
    if not found:
        raise UserError(f"{path} holds no task; {WHAT_A_TASK_NEEDS}")
    return found


def _check_names(tasks: list[Task]) -> None:
    first: dict[str, Task] = {}
    for task in tasks:
        other = first.setdefault(task.name, task)
        if other is not task:
            raise UserError(f"{task.path / 'task.toml'}: task.name: {task.name!r} is also the name of {other.path}; "
                            "give one of them another name")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MAX_TEXT:
            raise UserError(f"{file} is larger than {_MAX_TEXT} bytes; make it shorter")
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}; {WHAT_A_TASK_NEEDS}") from error


def _check_environment(path: Path, config: TaskConfig) -> None:
    if not (path / "environment").is_dir() and not config.environment.docker_image:
        raise UserError(f"{path} has neither an environment/ folder nor environment.docker_image; {WHAT_A_TASK_NEEDS}")


def _name(path: Path, config: TaskConfig) -> str:
    if config.task.name:
        return config.task.name
    if not _FOLDER_NAME.fullmatch(path.name):
        raise UserError(f"{path / 'task.toml'}: task.name: the folder's name {path.name!r} cannot serve as a name; "
                        "set name in [task] (letters, digits, . _ -)")
    return path.name


def _instruction(path: Path, steps: tuple[TaskStep, ...]) -> str:
    if steps and not (path / "instruction.md").is_file():
        return steps[0].instruction
    return _read_instruction(path / "instruction.md")


def _read_instruction(file: Path) -> str:
    text = strip_canary(_text(file))
    if not text.strip():
        raise UserError(f"{file} says nothing; write the instruction for the agent in it")
    return text


def _step(path: Path, index: int, step: StepConfig, config: TaskConfig, filler: Interpolator) -> TaskStep:
    folder = path / "steps" / step.name
    if not folder.is_dir():
        raise UserError(f"{path / 'task.toml'}: steps[{index}].name: there is no folder steps/{step.name}; make it, "
                        "with an instruction.md and tests/")
    tests, solution, workdir = folder / "tests", folder / "solution", folder / "workdir"
    shared = path / "tests"
    merged = {**config.verifier.env, **step.verifier.env}
    return TaskStep(
        name=step.name,
        instruction=_read_instruction(folder / "instruction.md"),
        tests=shared if not (tests / "test.sh").is_file() and (shared / "test.sh").is_file() else tests,
        solution=solution if solution.is_dir() else None,
        workdir=workdir if workdir.is_dir() else None,
        min_reward=step.min_reward,
        healthcheck=step.healthcheck,
        agent_timeout_sec=step.agent.timeout_sec,
        agent_user=step.agent.user,
        verifier_timeout_sec=step.verifier.timeout_sec,
        verifier_user=step.verifier.user,
        verifier_env=filler.fill(f"steps[{index}].verifier.env", merged),
    )


def _digest(folder: Path, modes: bool) -> str:
    try:
        return digest_tree(folder, links="hash", modes=modes, ignore=lambda path: path.name in _JUNK)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} cannot be hashed: {error}; a task folder holds files and folders only") from error


def _environment_digest(path: Path, config: TaskConfig) -> str:
    """Modes count here: `COPY` takes them into the image."""
    folder = path / "environment"
    content = _digest(folder, modes=True) if folder.is_dir() else None
    return digest_value({"folder": content, "docker_image": config.environment.docker_image})


def _server(item: McpServerConfig) -> McpServer:
    return McpServer(item.name, item.transport, item.url, item.command, tuple(item.args))


def _warnings(config: TaskConfig, has_skills: bool) -> Iterable[str]:
    if config.environment.network_mode is None and config.agent.network_mode is None:
        yield "environment.network_mode: not set; the sandbox has no network (write \"public\" if the task needs one)"
    if config.environment.skills_dir and not has_skills:
        yield (f"environment.skills_dir: no SKILL.md with a name and a description belongs to "
               f"{PurePosixPath(config.environment.skills_dir)} in environment/; the agent is told of no skills")


def _problems(path: Path, steps: tuple[TaskStep, ...]) -> Iterable[str]:
    for tests in [step.tests for step in steps] or [path / "tests"]:
        if not (tests / "test.sh").is_file():
            yield f"{tests / 'test.sh'} is missing; without it every rollout is unscored"
