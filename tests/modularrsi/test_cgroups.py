"""Control groups: where they can be made, what they are told, and that their end is sure."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

import pytest

from modularrsi.cgroups import Cgroup, Limits, Support, support


def _files(tmp_path: Path, mounts: str, own: str) -> Support:
    (tmp_path / "mounts").write_text(mounts)
    (tmp_path / "own").write_text(own)
    return support(tmp_path / "mounts", tmp_path / "own")


def test_version_1_is_found_under_the_own_group(tmp_path: Path) -> None:
    for name in ("memory/mine", "pids", "cpu,cpuacct/mine"):
        (tmp_path / name).mkdir(parents=True)
    mounts = "".join(
        f"cgroup {tmp_path}/{folder} cgroup rw,{controllers} 0 0\n"
        for folder, controllers in (("memory", "memory"), ("pids", "pids"), ("cpu,cpuacct", "cpu,cpuacct"))
    )
    found = _files(tmp_path, mounts, "3:memory:/mine\n2:pids:/outside/of/this/mount\n1:cpu,cpuacct:/mine\n")
    assert found.version == "v1"
    assert found.parents == {
        "memory": tmp_path / "memory/mine",
        "pids": tmp_path / "pids",
        "cpu": tmp_path / "cpu,cpuacct/mine",
    }


def _tree_v2(root: Path, path: str, granted: str, offered: str = "cpu memory pids io") -> Path:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.controllers").write_text(offered)
    (folder / "cgroup.subtree_control").write_text(granted)
    (folder / "cgroup.procs").write_text("")
    return folder


def test_version_2_uses_the_nearest_group_that_passes_its_controllers_on(tmp_path: Path) -> None:
    root = tmp_path / "cg"
    _tree_v2(root, "user/app/me.scope", "", offered="io")
    passing = _tree_v2(root, "user/app", "memory pids")
    _tree_v2(root, "user", "memory pids cpu")
    _tree_v2(root, "", "memory pids cpu")
    found = _files(tmp_path, f"none {root} cgroup2 rw 0 0\n", "0::/user/app/me.scope\n")
    assert found.version == "v2"
    assert found.usable
    assert set(found.parents.values()) == {passing}


def test_none_says_why(tmp_path: Path) -> None:
    root = tmp_path / "cg"
    _tree_v2(root, "", "io", offered="io")
    found = _files(tmp_path, f"none {root} cgroup2 rw 0 0\n", "0::/\n")
    assert not found.usable
    assert "not delegated" in found.reason
    assert not support(tmp_path / "absent").usable


def test_settings_of_version_2(tmp_path: Path) -> None:
    parents = dict.fromkeys(("memory", "pids", "cpu"), tmp_path)
    group = Cgroup.create("box", Limits(memory_mb=64, pids=9, cpus=1.5), Support("v2", parents))
    assert group.folders == (tmp_path / "box",)
    assert (tmp_path / "box/memory.max").read_text() == str(64 * 1024 * 1024)
    assert (tmp_path / "box/pids.max").read_text() == "9"
    assert (tmp_path / "box/cpu.max").read_text() == "150000 100000"


@pytest.fixture
def real() -> Support:
    found = support()
    if not found.usable:
        pytest.skip(f"no control groups here: {found.reason}")
    return found


def _entering(group: Cgroup, script: str) -> list[str]:
    return ["bash", "-c", "".join(f"echo 0 > {file}; " for file in group.entry_files) + script]


def test_limits_hold_and_the_end_is_sure(real: Support) -> None:
    group = Cgroup.create(f"modularrsi-test-{secrets.token_hex(4)}", Limits(memory_mb=64, pids=5), real)
    script = "for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 100 & done; wait"
    child = subprocess.Popen(_entering(group, script), stderr=subprocess.PIPE, start_new_session=True)
    assert child.stderr is not None
    assert b"fork" in child.stderr.readline()
    assert 0 < len(group.pids()) <= 5
    assert group.destroy()
    child.wait(10)
    child.stderr.close()
    assert not any(folder.exists() for folder in group.folders)
    assert group.destroy()


def test_memory_beyond_the_limit_is_killed_and_counted(real: Support) -> None:
    group = Cgroup.create(f"modularrsi-test-{secrets.token_hex(4)}", Limits(memory_mb=32), real)
    script = "head -c 200M /dev/zero | tail -c 190M >/dev/null; exit ${PIPESTATUS[1]}"
    try:
        assert subprocess.run(_entering(group, script), check=False).returncode != 0
        assert group.oom_kills() >= 1
    finally:
        assert group.destroy()
