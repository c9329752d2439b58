"""Harbor's own model reads what we write. Needs a Python with Harbor: its path in MODULARRSI_HARBOR_PYTHON."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.recordings import eventful, message, plain_turns, recorder

from harness.types import Usage

pytestmark = pytest.mark.harbor

VALIDATE = """
import json, sys
from harbor.models.trajectories import Trajectory
for line in sys.stdin:
    it = Trajectory.model_validate(json.loads(line))
    print(json.dumps({"steps": len(it.steps), "cost": it.final_metrics.total_cost_usd,
                      "subagents": len(it.subagent_trajectories or [])}))
"""


def harbor_reads(trajectories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    python = os.environ.get("MODULARRSI_HARBOR_PYTHON")
    if not python:
        pytest.skip("MODULARRSI_HARBOR_PYTHON names no Python that has Harbor")
    lines = "".join(json.dumps(trajectory) + "\n" for trajectory in trajectories)
    environment = {**os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run([python, "-c", VALIDATE], input=lines, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_harbor_reads_our_trajectories(tmp_path: Path) -> None:
    plain = recorder(tmp_path / "plain")
    plain_turns(plain)
    aside = recorder(tmp_path / "aside")
    plain_turns(aside, 1)
    aside.request([message("user", "q"), message("assistant", "earlier"), message("user", "now")], "judge")
    aside.reply("no", "thought", Usage(1, 1, 0), 0.0, "m", "length")
    silent = recorder(tmp_path / "silent")
    silent.violation("at once")
    trajectories = [plain.finish("complete"), eventful(recorder(tmp_path / "all")), aside.finish("complete"),
                    silent.finish("protocol_violation"), recorder(tmp_path / "none").finish("worker_crashed")]
    assert harbor_reads(trajectories) == [
        {"steps": 3, "cost": 0.5, "subagents": 0},
        {"steps": 9, "cost": None, "subagents": 3},
        {"steps": 3, "cost": 0.25, "subagents": 1},
        {"steps": 1, "cost": 0.0, "subagents": 0},
        {"steps": 1, "cost": 0.0, "subagents": 0},
    ]
