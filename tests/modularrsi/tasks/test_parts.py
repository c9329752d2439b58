"""Steps, environment variables, needs, skills, scripts and canaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.taskfolders import write_task

from harness.types import Skill
from modularrsi.errors import UserError
from modularrsi.tasks import load_task
from modularrsi.tasks.instruction import strip_canary
from modularrsi.tasks.scripts import staged_scripts
from modularrsi.tasks.skills import front_matter

# ------------------------------------------------------------------------------------------------------------- steps

STEPS = """
[verifier]
env = {A = "task", B = "task"}
[[steps]]
name = "first"
min_reward = 0.5
agent = {timeout_sec = 10}
verifier = {timeout_sec = 20, env = {B = "${ONE:-step}"}}
[[steps]]
name = "second"
min_reward = {speed = 1, size = 0.5}
healthcheck = {command = "true"}
"""


def steps_folder(folder: Path) -> Path:
    return write_task(folder, STEPS, files={
        "instruction.md": "",
        "steps/first/instruction.md": "<!-- canary 123 -->\nFirst.\n",
        "steps/first/tests/test.sh": "#!/bin/sh\n",
        "steps/first/workdir/setup.sh": "#!/bin/sh\n",
        "steps/second/instruction.md": "Second.\n",
        "steps/second/solution/solve.sh": "#!/bin/sh\n",
    })


def test_steps_carry_what_is_theirs(tmp_path: Path) -> None:
    task = load_task(steps_folder(tmp_path / "t"), {})
    first, second = task.steps
    assert task.instruction == first.instruction == "First.\n"
    assert (first.agent_timeout_sec, first.verifier_timeout_sec, first.min_reward) == (10.0, 20.0, 0.5)
    assert first.verifier_env == {"A": "task", "B": "step"}
    assert first.tests == task.path / "steps" / "first" / "tests"
    assert first.workdir == task.path / "steps" / "first" / "workdir"
    assert first.solution is None
    assert (second.agent_timeout_sec, second.verifier_timeout_sec, second.workdir) == (None, None, None)
    assert second.min_reward == {"speed": 1.0, "size": 0.5}
    assert second.healthcheck is not None
    assert second.solution == task.path / "steps" / "second" / "solution"


def test_a_step_without_tests_uses_the_task_s_or_is_a_problem(tmp_path: Path) -> None:
    folder = steps_folder(tmp_path / "t")
    assert load_task(folder, {}).steps[1].tests == folder / "tests"
    (folder / "tests" / "test.sh").unlink()
    problems = load_task(folder, {}).problems
    assert [problem for problem in problems if "second" in problem]
    assert len(problems) == 1


# --------------------------------------------------------------------------------------------- environment variables


def test_only_names_that_the_file_writes_out_are_read(tmp_path: Path) -> None:
    toml = '[verifier.env]\nKEY = "${TOKEN}"\nURL = "http://${HOST:-localhost}:${PORT:-80}/$HOME"\nE = "${EMPTY:-}"\n'
    task = load_task(write_task(tmp_path / "t", toml), {"TOKEN": "s3cret", "PORT": "", "OTHER": "x", "HOME": "/root"})
    assert task.verifier_env == {"KEY": "s3cret", "URL": "http://localhost:80/$HOME", "E": ""}
    assert task.host_values == ("s3cret",)
    assert "s3cret" not in repr(task)


def test_every_unset_name_is_told_at_once(tmp_path: Path) -> None:
    toml = '[verifier.env]\nA = "${ONE}"\n[environment.env]\nB = "x${TWO}"\n[solution.env]\nC = "${THREE}"\n'
    folder = write_task(tmp_path / "t", toml)
    with pytest.raises(UserError) as caught:
        load_task(folder, {})
    message = str(caught.value)
    assert len(message.splitlines()) == 3
    assert f"{folder / 'task.toml'}: verifier.env.A: ${{ONE}} is not set in your environment" in message
    assert "${TWO:-default}" in message


# ------------------------------------------------------------------------------------------------------------- needs


@pytest.mark.parametrize(("toml", "reason"), [
    ('[environment]\nos = "windows"', "environment.os"),
    ("[environment]\ngpus = 2", "environment.gpus: the task needs 2 GPU"),
    ('[environment]\ntpu = "v4"', "environment.tpu"),
    ('[environment]\nnetwork_mode = "allowlist"', "environment.network_mode: allowlist"),
    ('[agent]\nnetwork_mode = "allowlist"', "agent.network_mode: allowlist"),
    ('[environment]\nnetwork_mode = "public"\n[agent]\nnetwork_mode = "no-network"',
     "agent.network_mode: no-network differs from public"),
    ('[verifier]\nnetwork_mode = "public"', "verifier.network_mode: public differs from no-network"),
    ('[verifier]\nenvironment_mode = "separate"', "verifier.environment_mode"),
    ('[[verifier.collect]]\ncommand = "x"', "verifier.collect"),
])
def test_what_no_sandbox_of_ours_gives_is_refused_by_name(tmp_path: Path, toml: str, reason: str) -> None:
    task = load_task(write_task(tmp_path / "t", toml + "\n"))
    for kind in ("docker", "bubblewrap"):
        reasons = task.unsupported(kind)
        assert len(reasons) == 1
        assert reasons[0].startswith(reason)
    assert not task.wants_network or "public" in toml


def test_several_containers_and_bare_images(tmp_path: Path) -> None:
    compose = load_task(write_task(tmp_path / "c", files={"environment/docker-compose.yaml": "services: {}\n"}))
    assert [reason for reason in compose.unsupported("docker") if "docker-compose.yaml" in reason]
    image = '[environment]\ndocker_image = "x"\n'
    bare = load_task(write_task(tmp_path / "i", image, files={"environment/Dockerfile": ""}))
    assert bare.unsupported("docker") == []
    assert bare.unsupported("bubblewrap")[0].startswith("environment.docker_image")


def test_an_agent_that_may_use_the_network_where_nothing_is_said_of_the_environment(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", '[agent]\nnetwork_mode = "public"\n'))
    assert task.wants_network
    assert task.unsupported("docker") == []


# ------------------------------------------------------------------------------------------------------------ skills


def test_skills_come_from_the_build_folder(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path / "t", '[environment]\nskills_dir = "/opt/skills"\n', files={
        "environment/skills/b/SKILL.md": "---\nname: bee\ndescription: 'it''s b'\n---\ntext",
        "environment/skills/a/SKILL.md": "---\r\nname: \"ay\"\r\ndescription: >-\r\n  two\r\n  lines\r\n---\r\n",
        "environment/skills/c/SKILL.md": "no front matter",
        "environment/skills/d/deep/SKILL.md": "---\nname: deep\ndescription: d\n---\n",
    }))
    assert task.skills == (
        Skill("ay", "two lines", "/opt/skills/a/SKILL.md"),
        Skill("bee", "it's b", "/opt/skills/b/SKILL.md"),
    )


@pytest.mark.parametrize("where", ["/opt/skills", "../..", "/", "../../other"])
def test_a_skills_folder_without_skills_is_said_and_never_left(tmp_path: Path, where: str) -> None:
    write_task(tmp_path / "other")
    (tmp_path / "other" / "x").mkdir()
    (tmp_path / "other" / "x" / "SKILL.md").write_text("---\nname: outside\ndescription: d\n---\n")
    task = load_task(write_task(tmp_path / "t", f'[environment]\nskills_dir = "{where}"\n'))
    assert task.skills == ()
    assert [warning for warning in task.warnings if "skills_dir" in warning]


@pytest.mark.parametrize(("text", "values"), [
    ("---\nname: a\nmeta:\n  - x\n  - y\ndescription: b # c\n---", {"name": "a", "description": "b"}),
    ("---\nname: a\ndescription: |\n  one\n  two\n---\n", {"name": "a", "description": "one\ntwo"}),
    ("---\ndescription: one\n  two\n---\n", {"description": "one two"}),
    ("---\nmeta:\n  name: inner\n---\n", {}),
    ("---\nname: a\n", {}),
    ("", {}),
])
def test_front_matter(text: str, values: dict[str, str]) -> None:
    assert front_matter(text) == values


@given(st.text(alphabet="-\n :#>|'\"ab\t\r", max_size=60))
def test_front_matter_takes_anything(text: str) -> None:
    assert all(isinstance(value, str) for value in front_matter("---\n" + text + "\n---\n").values())


# ----------------------------------------------------------------------------------------------------------- scripts


def test_scripts_with_windows_line_ends_are_mended_in_a_copy(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test.sh").write_bytes(b"#!/bin/bash\r\necho 1\r\n")
    (folder / "run").write_bytes(b"#!/usr/bin/env python3\r\nprint()\r\n")
    (folder / "data.csv").write_bytes(b"a,b\r\n")
    (folder / "link").symlink_to("data.csv")
    (folder / "run").chmod(0o755)
    with staged_scripts(folder) as staged:
        assert (staged / "test.sh").read_bytes() == b"#!/bin/bash\necho 1\n"
        assert (staged / "run").read_bytes() == b"#!/usr/bin/env python3\nprint()\n"
        assert (staged / "run").stat().st_mode & 0o777 == 0o755
        assert (staged / "data.csv").read_bytes() == b"a,b\r\n"
        assert (staged / "link").readlink() == Path("data.csv")
    assert not staged.exists()
    assert b"\r\n" in (folder / "test.sh").read_bytes()


def test_a_folder_without_such_scripts_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "test.sh").write_text("#!/bin/sh\n")
    (tmp_path / "binary").write_bytes(b"#!\0\r\n")
    with staged_scripts(tmp_path) as staged:
        assert staged == tmp_path
    assert tmp_path.exists()


# ---------------------------------------------------------------------------------------------------------- canaries


@pytest.mark.parametrize(("text", "shown"), [
    ("<!-- harbor-canary GUID 1234 -->\n\nDo.\n", "Do.\n"),
    ("# BENCHMARK DATA SHOULD NEVER APPEAR, canary GUID 1\r\n# canary 0123abcd-0123-4567-89ab-0123456789ab\r\nDo.\r\n",
     "Do.\n"),
    ("# Canary deployment\nDo.\n", "# Canary deployment\nDo.\n"),
    ("\n# Title\n<!-- canary -->\n", "\n# Title\n<!-- canary -->\n"),
    ("Do.\n<!-- canary -->\n", "Do.\n<!-- canary -->\n"),
])
def test_leading_canary_lines_are_not_shown(text: str, shown: str) -> None:
    assert strip_canary(text) == shown
