"""After the end there is nothing: no process, mount, control group or folder; not even of an engine that was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.sandboxes import LOCAL, Kind, require, spec

from modularrsi.cgroups import support
from modularrsi.processes import snapshot
from modularrsi.sandbox import make_sandbox, reap_folders

# In one process: they look for what is left on the whole machine, under names that they share.
pytestmark = [pytest.mark.parametrize("kind", LOCAL), pytest.mark.xdist_group("remains")]
ROOT = Path(__file__).resolve().parents[2]

ENGINE = """
import asyncio, json, sys
from pathlib import Path
from modularrsi.sandbox import make_sandbox
from modularrsi.sandbox.base import SandboxSpec
async def main(kind, environment, scratch):
    spec = SandboxSpec("killed", Path(environment), Path(scratch), workdir="/app", labels={"run": "r1"})
    sandbox = make_sandbox(kind, spec)
    await sandbox.start()
    await sandbox.exec("sleep 1234.5 >/dev/null 2>&1 & setsid sleep 1234.5 >/dev/null 2>&1 &")
    print("up", flush=True)
    await asyncio.sleep(600)
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _available(kind: Kind) -> None:
    require(kind)


def _groups() -> set[str]:
    return {str(path) for parent in support().parents.values() for path in parent.glob("modularrsi-*")}


def _sleepers(mark: str) -> list[int]:
    found = []
    for stat in snapshot():
        try:
            if mark in Path(f"/proc/{stat.pid}/cmdline").read_text():
                found.append(stat.pid)
        except OSError:
            continue
    return found


def _mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


def test_stop_leaves_nothing(kind: Kind, tmp_path: Path) -> None:
    plan = spec(kind, tmp_path)

    async def scenario() -> None:
        sandbox = make_sandbox(kind.name, plan)
        await sandbox.start()
        await sandbox.exec("sleep 777.25 >/dev/null 2>&1 & setsid sleep 777.25 >/dev/null 2>&1 &")
        await sandbox.exec("mkdir -p /app/locked/in; touch /app/locked/in/f; chmod 000 /app/locked/in /app/locked")
        assert _sleepers("777.25")
        await sandbox.stop()

    asyncio.run(scenario())
    assert not _sleepers("777.25")
    assert not [group for group in _groups() if plan.name in group]
    assert not _mounts_below(tmp_path)
    assert list(plan.scratch.iterdir()) == []


@pytest.mark.slow
def test_stop_removes_a_tree_deeper_than_python_recurses(kind: Kind, tmp_path: Path) -> None:
    plan = spec(kind, tmp_path)
    dig = "import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')"

    async def scenario() -> None:
        sandbox = make_sandbox(kind.name, plan)
        await sandbox.start()
        assert (await sandbox.exec(f'cd /app && python3 -c "{dig}"')).exit_code == 0
        await sandbox.stop()

    asyncio.run(scenario())
    assert list(plan.scratch.iterdir()) == []


def test_a_failed_start_leaves_nothing(kind: Kind, tmp_path: Path) -> None:
    plan = spec(kind, tmp_path, "FROM debian\nRUN sleep 777.75 & false\n")

    async def scenario() -> None:
        with pytest.raises(Exception, match="ended with"):
            await make_sandbox(kind.name, plan).start()

    asyncio.run(scenario())
    assert not _sleepers("777.75")
    assert not [group for group in _groups() if plan.name in group]
    assert list(plan.scratch.iterdir()) == []
    assert not [path for path in plan.scratch.parent.rglob("*") if "sandbox" in path.parts]


def _killed_engine(kind: Kind, tmp_path: Path, name: str) -> Path:
    """Start a sandbox in another process and kill that with SIGKILL; returns the scratch folder."""
    plan = spec(kind, tmp_path, name=name)
    argv = [sys.executable, "-c", ENGINE, kind.name, str(plan.environment_dir), str(plan.scratch)]
    engine = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert engine.stdout is not None
    try:
        assert engine.stdout.readline() == b"up\n"
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine.stdout.close()
    return plan.scratch


def test_what_a_killed_engine_left_is_removed(kind: Kind, tmp_path: Path) -> None:
    scratch = _killed_engine(kind, tmp_path, "one")
    assert (scratch / "sandbox").exists()
    assert reap_folders(tmp_path / "scratch", {"run": "another"}) == []
    assert reap_folders(tmp_path / "scratch", {"run": "r1"}) == ["killed"]
    assert list(scratch.iterdir()) == []
    deadline = time.monotonic() + 10
    while _sleepers("1234.5") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _sleepers("1234.5")
    assert not [group for group in _groups() if "-killed-" in group]
    assert reap_folders(tmp_path / "scratch") == []


def test_the_next_start_in_the_same_folder_cleans_up_itself(kind: Kind, tmp_path: Path) -> None:
    scratch = _killed_engine(kind, tmp_path, "two")

    async def scenario() -> None:
        plan = spec(kind, tmp_path, name="two")
        assert plan.scratch == scratch
        sandbox = make_sandbox(kind.name, plan)
        await sandbox.start()
        result = await sandbox.exec("ls /app | wc -l")
        assert result.stdout.strip() == b"0"
        await sandbox.stop()

    asyncio.run(scenario())
    assert not [group for group in _groups() if "-killed-" in group]
    assert list(scratch.iterdir()) == []


def test_a_living_engines_sandbox_is_left_alone(kind: Kind, tmp_path: Path) -> None:
    async def scenario() -> None:
        plan = spec(kind, tmp_path)
        sandbox = make_sandbox(kind.name, plan)
        await sandbox.start()
        assert reap_folders(tmp_path / "scratch") == []
        assert (await sandbox.exec("true")).exit_code == 0
        await sandbox.stop()

    asyncio.run(scenario())


def test_a_damaged_record_is_no_reason_to_touch_anything(kind: Kind, tmp_path: Path) -> None:
    folder = tmp_path / "scratch/x/sandbox"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({"kind": kind.name, "processes": [{"pid": os.getpid()}]}))
    assert reap_folders(tmp_path / "scratch") == []
    assert folder.exists()
