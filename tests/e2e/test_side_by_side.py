"""Two engines at the same time on the same tasks: neither sees, kills or cleans up what is the other's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.openai_server import OpenAIServer, Reply, Request
from support.usable import usable

TASK = Path(__file__).parent.parent / "tasks" / "greeting"


def policy(request: Request) -> Reply:
    """Ten turns of nothing: the two runs overlap for most of their time."""
    turns = sum(message["role"] == "assistant" for message in request.body["messages"])
    commands = [{"keystrokes": "true\n", "duration": 0.2}]
    content = {"analysis": "", "plan": "", "commands": commands, "task_complete": turns >= 10}
    return Reply(json.dumps(content))


def test_two_engines_do_not_disturb_each_other(short_folder: Path) -> None:
    usable("bubblewrap")
    with OpenAIServer(policy) as server:
        engines = [
            subprocess.Popen(
                ["env", f"MODULARRSI_SCRATCH={short_folder}", sys.executable, "-m", "modularrsi", "run", str(TASK),
                 "--model", "m", "--base-url", server.url, "-k", "2", "--sandbox", "bubblewrap", "--json",
                 "--runs-dir", str(short_folder / name)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
            for name in ("one", "two")
        ]
        reports = [json.loads(engine.communicate(timeout=120)[0]) for engine in engines]
    for report in reports:
        assert [rollout["failure"] for rollout in report["rollouts"]] == [None, None]
        assert [rollout["ending"] for rollout in report["rollouts"]] == ["complete", "complete"]
