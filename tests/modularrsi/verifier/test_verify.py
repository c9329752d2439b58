"""What an agent leaves behind may cost it its reward, never win it one, and never win it the absence of one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.sandboxes import BUBBLEWRAP, output, require, started
from support.taskfolders import write_task

from modularrsi.agents.base import AgentEnd, AgentKind, Assignment
from modularrsi.rollout.plan import RolloutPlan
from modularrsi.rollout.rollout import run_rollout
from modularrsi.sandbox import make_sandbox
from modularrsi.sandbox.base import Sandbox
from modularrsi.tasks.load import load_task
from modularrsi.verifier.protect import Protected
from modularrsi.verifier.verify import Judging, Verdict, verify

DOCKERFILE = (
    "FROM debian:bookworm-slim\nWORKDIR /app\n"
    "RUN mkdir -p /app/data /srv/real && echo good > /app/data/fixture && echo good > /srv/real/fixture "
    "&& ln -s /srv/real /app/linked\n"
)
TEST = '#!/bin/bash\n[ "$(cat /app/{path})" = good ]; echo $? > /logs/verifier/reward.txt\n'


def judged(folder: Path, path: str, command: str) -> Verdict:
    """The verdict after an agent ran `command`; the tests write 0 where the protected file is as it was, else 1."""
    require(BUBBLEWRAP)
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text(TEST.replace("{path}", path))

    async def go() -> Verdict:
        async with started(BUBBLEWRAP, folder, DOCKERFILE) as sandbox:
            protected = Protected(sandbox, [f"/app/{path}"])
            await protected.keep()
            await sandbox.exec(command, timeout_sec=30.0)
            return await verify(sandbox, Judging(tests, 30.0, {}), protected)

    return asyncio.run(go())


@pytest.mark.parametrize("command", [
    "echo evil > /app/data/fixture",
    "rm -rf /app/data",
    "rm -rf /app/data; echo evil > /app/data",
    "rm -rf /app/data; ln -s /nowhere /app/data",
    "rm -rf /app/data; ln -s /proc /app/data",
    "mv /app/data /app/moved; ln -s moved /app/data; echo evil > /app/moved/fixture",
    "rm /app/data/fixture; mkfifo /app/data/fixture",
    "rm -rf /app; echo evil > /app",
])  # fmt: skip
def test_a_protected_file_is_put_back_whatever_lies_in_its_way(short_folder: Path, command: str) -> None:
    assert judged(short_folder, "data/fixture", command).reward.value == 0.0


@pytest.mark.parametrize("command", [
    "true",
    "rm /app/linked; mkdir /app/linked; echo evil > /app/linked/fixture",
    "ln -sfn /tmp /app/linked; echo evil > /tmp/fixture",
])  # fmt: skip
def test_a_link_of_the_image_on_the_way_is_put_back_too(short_folder: Path, command: str) -> None:
    assert judged(short_folder, "linked/fixture", command).reward.value == 0.0


@pytest.mark.parametrize("command", [
    "rm -rf /logs; echo x > /logs",
    "rm -rf /logs; ln -s /nowhere /logs",
    "rm -rf /logs; ln -s /proc /logs",
    "rm -rf /tests; echo x > /tests",
])  # fmt: skip
def test_an_agent_cannot_take_the_place_of_the_reward_away(short_folder: Path, command: str) -> None:
    assert judged(short_folder, "data/fixture", command).reward.value == 0.0


@pytest.mark.parametrize("command", ["rm -rf /app", "rm -rf /app; echo x > /app", "rm -rf /app; ln -s /nowhere /app"])
def test_an_agent_that_removes_its_working_folder_is_judged(short_folder: Path, command: str) -> None:
    require(BUBBLEWRAP)
    tests = short_folder / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text("#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")

    async def go() -> Verdict:
        async with started(BUBBLEWRAP, short_folder, DOCKERFILE) as sandbox:
            await sandbox.exec(command, timeout_sec=30.0)
            return await verify(sandbox, Judging(tests, 30.0, {}), Protected(sandbox, []))

    assert asyncio.run(go()).reward.value == 0.0


class Reader:
    """Acts by listing what it finds where the tests go."""

    kind: AgentKind = "nop"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def describe(self) -> dict[str, Any]:
        return {}

    async def act(self, assignment: Assignment, sandbox: Sandbox) -> AgentEnd:
        self.seen.append(await output(sandbox, "ls -A /tests /logs/verifier"))
        return AgentEnd("complete")


def test_the_tests_of_a_step_are_gone_before_the_next_agent_acts(short_folder: Path) -> None:
    require(BUBBLEWRAP)
    toml = (
        'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n'
        '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    )
    steps = {"steps/one/instruction.md": "First.\n", "steps/two/instruction.md": "Second.\n"}
    task = load_task(write_task(short_folder / "task", toml, files=steps))
    agent = Reader()
    plan = RolloutPlan("task/1", task, 0, short_folder / "rollout")
    result, _ = asyncio.run(run_rollout(plan, agent, lambda spec: make_sandbox("bubblewrap", spec)))
    assert result.reward == 1.0
    assert agent.seen == ["/logs/verifier:\n\n/tests:\n"] * 2
