"""Loading task folders: what comes out of a good one, and what is said of a bad one."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from support.taskfolders import write_task

from harness.types import McpServer
from modularrsi.errors import UserError
from modularrsi.tasks import find_tasks, load_task

FULL = """
schema_version = "1.4"
source = "somewhere"
artifacts = ["/app/out"]
multi_step_reward_strategy = "final"
[task]
name = "org/full"
version = "2"
description = "d"
authors = [{name = "A", email = "a@b"}]
keywords = ["k"]
[metadata]
difficulty = "easy"
anything = {goes = [1, 2]}
[metadata.modularrsi]
protected = ["/app/data.csv", "/app/fixtures/"]
[agent]
timeout_sec = 120
user = "agent"
[verifier]
timeout_sec = 30.5
user = 1000
env = {A = "1"}
[environment]
build_timeout_sec = 60
docker_image = "debian:bookworm-slim"
cpus = 2
memory_mb = 2048
storage_mb = 4096
workdir = "/"
network_mode = "public"
env = {B = "2"}
[environment.healthcheck]
command = "true"
[[environment.mcp_servers]]
name = "s"
transport = "stdio"
command = "server"
args = ["-x"]
[solution]
env = {C = "3"}
"""


def loading(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_task(folder, {})
    return str(caught.value)


def test_everything_of_a_full_file_arrives(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", FULL))
    config = task.config
    assert task.name == "org/full"
    assert (config.agent.timeout_sec, config.agent.user) == (120.0, "agent")
    assert (config.verifier.timeout_sec, config.verifier.user) == (30.5, 1000)
    environment = config.environment
    assert (environment.cpus, environment.memory_mb, environment.storage_mb) == (2.0, 2048, 4096)
    assert (environment.workdir, environment.docker_image) == ("/", "debian:bookworm-slim")
    assert environment.healthcheck is not None
    assert (environment.healthcheck.interval_sec, environment.healthcheck.retries) == (5.0, 3)
    assert (task.verifier_env, task.env, task.solution_env) == ({"A": "1"}, {"B": "2"}, {"C": "3"})
    assert task.mcp_servers == (McpServer("s", "stdio", "", "server", ("-x",)),)
    assert task.protected == ("/app/data.csv", "/app/fixtures/")
    assert config.multi_step_reward_strategy == "final"
    assert task.wants_network
    assert task.warnings == ()
    assert task.problems == ()


def test_defaults(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", "\n"))
    assert task.name == "t"
    assert task.config.agent.timeout_sec is None
    assert (task.config.verifier.timeout_sec, task.config.environment.build_timeout_sec) == (600.0, 600.0)
    assert task.config.multi_step_reward_strategy == "mean"
    assert task.steps == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.name = "other"  # type: ignore[misc]


def test_silence_about_the_network_means_none_and_is_said(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t"))
    assert not task.wants_network
    assert [warning for warning in task.warnings if "network" in warning]
    for mode, wanted in (("public", True), ("no-network", False)):
        task = load_task(write_task(tmp_path / mode, f'[environment]\nnetwork_mode = "{mode}"\n'))
        assert task.wants_network is wanted
        assert task.warnings == ()


@pytest.mark.parametrize(("old", "name", "value"), [
    ('memory = "2G"', "memory_mb", 2048),
    ('memory = "512M"', "memory_mb", 512),
    ('memory = "1.5GiB"', "memory_mb", 1536),
    ('storage = "10gb"', "storage_mb", 10240),
    ('storage = "2097152"', "storage_mb", 2),
    ("allow_internet = true", "network_mode", "public"),
    ("allow_internet = false", "network_mode", "no-network"),
])
def test_older_spellings_are_read(tmp_path: Path, old: str, name: str, value: object) -> None:
    task = load_task(write_task(tmp_path / "t", f'version = "1.0"\n[environment]\n{old}\n'))
    assert getattr(task.config.environment, name) == value
    assert task.config.schema_version == "1.0"
    assert not [warning for warning in task.warnings if "unknown" in warning]


def test_all_mistakes_are_named_at_once_with_file_field_and_fix(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", """
schema_version = "1.1"
[agent]
timeout_sec = "900"
[verifier]
timeout_sec = -1
env = {A = 1}
[environment]
gpus = 1.5
network_mode = "everywhere"
workdir = "app/../.."
cpus = nan
[[environment.mcp_servers]]
transport = "stdio"
[[steps]]
name = "a"
min_reward = "high"
""")
    lines = loading(folder).splitlines()
    assert all(line.startswith(f"{folder / 'task.toml'}: ") for line in lines)
    said = "\n".join(lines)
    fields = ("agent.timeout_sec", "verifier.timeout_sec", "verifier.env.A", "environment.gpus", "environment.cpus",
              "environment.network_mode", "environment.workdir", "environment.mcp_servers[0]", "steps[0].min_reward")
    for field in fields:
        assert f": {field}" in said, field
    assert "agent.timeout_sec: Input should be a valid number, got '900'; write a number, such as 60.0" in said


@pytest.mark.parametrize(("toml", "part"), [
    ("a = ", "is not TOML"),
    ('schema_version = "2.0"', "schema_version"),
    ('[task]\nname = "a/b/c"', "task.name"),
    ('[task]\nname = "../x"', "task.name"),
    ("environment = 3", "environment"),
    ('[environment]\nmemory = "lots"', "is not a size"),
    ("[environment]\nmemory = 3", "write memory_mb"),
    ('[environment]\nallow_internet = true\nnetwork_mode = "no-network"', "contradicts"),
    ('[environment]\nallow_internet = "yes"', "true or false"),
    ('[metadata.modularrsi]\nprotected = ["relative"]', "metadata.modularrsi.protected[0]"),
    ('[metadata.modularrsi]\nprotected = ["/"]', "metadata.modularrsi.protected[0]"),
    ('[metadata.modularrsi]\nprotected = ["/app/../etc"]', "metadata.modularrsi.protected[0]"),
    ('[[steps]]\nname = "../a"', "steps[0].name"),
    ('[[steps]]\nname = "a"\n[[steps]]\nname = "a"', "two steps are called 'a'"),
    ('[[steps]]\nname = "absent"', "there is no folder steps/absent"),
    ('[[environment.mcp_servers]]\nname = "s"', "needs url"),
])
def test_each_mistake_is_named(tmp_path: Path, toml: str, part: str) -> None:
    message = loading(write_task(tmp_path / "t", toml + "\n"))
    assert part in message
    assert "task.toml" in message


def test_unknown_keys_are_kept_as_warnings_with_the_nearest_name(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", """
future = 1
[agent]
timeout = 60
[environment]
network_mode = "no-network"
[environment.healthcheck]
command = "true"
interval = 3
[[steps]]
name = "a"
colour = "red"
""", files={"steps/a/instruction.md": "x", "steps/a/tests/test.sh": "#!/bin/sh\n"}))
    assert task.warnings == (
        "future: unknown, ignored",
        "agent.timeout: unknown, ignored; did you mean timeout_sec?",
        "environment.healthcheck.interval: unknown, ignored; did you mean interval_sec?",
        "steps[0].colour: unknown, ignored",
    )


@pytest.mark.parametrize(("missing", "part"), [
    ("task.toml", "has no task.toml"),
    ("instruction.md", "instruction.md cannot be read"),
    ("environment/Dockerfile", "neither an environment/ folder nor environment.docker_image"),
])
def test_a_missing_part_is_named_with_what_a_task_needs(tmp_path: Path, missing: str, part: str) -> None:
    message = loading(write_task(tmp_path / "t", files={missing: ""}))
    assert part in message
    assert "tests/test.sh" in message


def test_an_image_stands_in_for_the_environment_folder(tmp_path: Path) -> None:
    toml = '[environment]\ndocker_image = "debian:bookworm-slim"\n'
    assert load_task(write_task(tmp_path / "t", toml, files={"environment/Dockerfile": ""})).environment_digest


def test_missing_tests_load_with_a_problem(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", files={"tests/test.sh": ""}))
    assert len(task.problems) == 1
    assert "test.sh is missing" in task.problems[0]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"  \n\t", b""])
def test_an_instruction_that_says_nothing_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write_task(tmp_path / "t")
    (folder / "instruction.md").write_bytes(content)
    assert "instruction.md" in loading(folder)


def test_the_digest_follows_the_content_and_nothing_else(tmp_path: Path) -> None:
    one, two = load_task(write_task(tmp_path / "a" / "t")), load_task(write_task(tmp_path / "b" / "t"))
    assert one.digest == two.digest
    assert one.environment_digest == two.environment_digest
    (two.path / "tests" / "__pycache__").mkdir()
    (two.path / "tests" / "__pycache__" / "x.pyc").write_bytes(b"x")
    os.utime(two.path / "task.toml", (1, 1))
    assert load_task(two.path).digest == one.digest
    (two.path / "tests" / "test.sh").write_text("#!/bin/sh\n")
    changed = load_task(two.path)
    assert changed.digest != one.digest
    assert changed.environment_digest == one.environment_digest
    (two.path / "environment" / "data").write_text("x")
    assert load_task(two.path).environment_digest != one.environment_digest


def test_links_out_of_the_folder_are_hashed_not_followed(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t")
    (folder / "environment" / "link").symlink_to("/etc/hostname")
    before = load_task(folder).digest
    (folder / "environment" / "link").unlink()
    (folder / "environment" / "link").symlink_to("/etc/passwd")
    assert load_task(folder).digest != before
    os.mkfifo(folder / "environment" / "pipe")
    assert "files and folders only" in loading(folder)


def test_find_tasks_takes_tasks_and_folders_of_tasks(tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    for name in ("b", "a", "c"):
        write_task(pool / name)
    (pool / "notes").mkdir()
    (pool / "README.md").write_text("x")
    assert [task.name for task in find_tasks([pool])] == ["a", "b", "c"]
    assert [task.name for task in find_tasks([pool / "c", pool, pool / "a"])] == ["c", "a", "b"]


def test_find_tasks_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        find_tasks([tmp_path / "absent"])
    with pytest.raises(UserError, match=r"holds no task; a task folder has task\.toml"):
        find_tasks([tmp_path])
    write_task(tmp_path / "a", "a =")
    write_task(tmp_path / "b", "b =")
    write_task(tmp_path / "c")
    with pytest.raises(UserError) as caught:
        find_tasks([tmp_path])
    assert len(str(caught.value).splitlines()) == 2


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    write_task(tmp_path / "a", '[task]\nname = "same"\n')
    write_task(tmp_path / "b", '[task]\nname = "same"\n')
    with pytest.raises(UserError, match=r"'same' is also the name of"):
        find_tasks([tmp_path])


def test_a_folder_name_that_cannot_be_a_task_name(tmp_path: Path) -> None:
    assert "cannot serve as a name" in loading(write_task(tmp_path / "a task"))
    assert load_task(write_task(tmp_path / "a task", '[task]\nname = "fine"\n')).name == "fine"


def test_the_example_tasks_load_without_a_word(shared: Path) -> None:
    tasks = find_tasks([shared / "data" / "tasks"])
    assert [task.name for task in tasks] == ["count-lines", "fix-script", "move-logs", "rewrite-config", "sum-column",
                                             "unique-words"]
    assert all(not task.warnings and not task.problems and not task.wants_network for task in tasks)
    assert all(not task.unsupported(kind) for task in tasks for kind in ("docker", "bubblewrap", "process"))
