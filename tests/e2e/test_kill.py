"""kill -9 of the engine at random moments, then the same command again.

Each rollout is scored once, no recorded reply is paid again, and nothing is left behind.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.leftovers import containers, control_groups, processes
from support.openai_server import OpenAIServer, Reply, Request
from support.usable import usable

from modularrsi.digest import digest_value
from modularrsi.runs.audit import audit
from modularrsi.runs.folder import read_state

TASK = Path(__file__).parent.parent / "tasks" / "greeting"
KILLS = 20
ROLLOUTS = 12


def policy(request: Request) -> Reply:
    """Four turns whose text depends on nothing but the last message: the same prompt, the same reply."""
    last = request.last
    if "echo step-2" in last:
        return reply([("echo step-3\n", 0.3)], complete=True)
    if "echo step-3" in last:
        return reply([], complete=True)
    if "echo step-1" in last:
        return reply([("echo step-2\n", 0.3)])
    return reply([("echo step-1; printf 'Hello, world!\\n' > greeting.txt\n", 0.4)])


def reply(commands: list[tuple[str, float]], complete: bool = False) -> Reply:
    content = {
        "analysis": "", "plan": "", "commands": [{"keystrokes": k, "duration": d} for k, d in commands],
        "task_complete": complete,
    }
    return Reply(json.dumps(content), delay=0.15)


def command(url: str, scratch: Path, kind: str) -> list[str]:
    return [
        "env", f"MODULARRSI_SCRATCH={scratch}", sys.executable, "-m", "modularrsi", "run", str(TASK), "--model", "m",
        "--base-url", url, "-k", str(ROLLOUTS), "-n", "4", "--sandbox", kind, "--runs-dir", str(scratch / "runs"),
        "--run", "killed", "--json",
    ]


def recorded_keys(run: Path) -> set[str]:
    """Idempotency keys of all calls whose reply is on the disk."""
    keys = set()
    for line in (run / "events.jsonl").read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the torn end
        if event.get("type") == "call.done":
            data = event["data"]
            name = digest_value(["killed", data["scope"], data["ordinal"], data["request_digest"]])
            keys.add(f"modularrsi-{name[:40]}")
    return keys


def survive(scratch: Path, kind: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    run = scratch / "runs" / "killed"
    settled: set[str] = set()
    done = 0
    with OpenAIServer(policy) as server:
        for _ in range(kills):
            engine = subprocess.Popen(
                command(server.url, scratch, kind), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            time.sleep(chance.uniform(0.3, 5.0))
            engine.send_signal(signal.SIGKILL)
            engine.communicate()
            if (run / "events.jsonl").exists():
                settled |= recorded_keys(run)
            done += 1
        count = len(server.requests)
        final = subprocess.run(command(server.url, scratch, kind), capture_output=True, timeout=300, check=False)
        assert final.returncode == 0, final.stderr.decode()[-2_000:]
        late = [r for r in server.requests[count:] if r.headers["idempotency-key"] in settled]
        assert not late, "a call whose reply was recorded was sent again"
        keys = [r.headers["idempotency-key"] for r in server.requests]
        assert server.generated == len(set(keys)), "each distinct call is charged once"
        assert server.repeats <= done * 4, "only calls in flight at a kill may be repeated"
    report = json.loads(final.stdout)
    assert report["complete"] and report["scored"] == ROLLOUTS and report["passed"] == ROLLOUTS
    state = read_state(run)
    assert state is not None and len(state.finished) == ROLLOUTS
    finishes = [json.loads(line)["data"]["result"]["id"] for line in (run / "events.jsonl").read_bytes().splitlines()
                if json.loads(line)["type"] == "rollout.finished"]
    assert sorted(finishes) == sorted(set(finishes)), "each rollout is scored once"
    assert audit(run) == []
    assert processes(str(scratch)) == []
    assert control_groups(scratch / "runs") == []
    assert not list(scratch.glob("mrsi-*/*/*")), "private folders are gone"


@pytest.mark.slow
def test_twenty_kills_in_bubblewrap(short_folder: Path) -> None:
    usable("bubblewrap")
    survive(short_folder, "bubblewrap", KILLS, seed=7)


@pytest.mark.slow
@pytest.mark.docker
def test_five_kills_in_docker(short_folder: Path) -> None:
    usable("docker")
    survive(short_folder, "docker", 5, seed=11)
    assert containers(f"modularrsi.run={short_folder / 'runs' / 'killed'}") == []


def test_three_kills_in_bubblewrap(short_folder: Path) -> None:
    usable("bubblewrap")
    survive(short_folder, "bubblewrap", 3, seed=3)
