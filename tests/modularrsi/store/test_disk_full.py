"""A full disk is an error now and a working store afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modularrsi.errors import StoreError
from modularrsi.store import RunReader, RunStore


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True)
    if mount.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mount.stderr.decode(errors='replace').strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def fill(store: RunStore) -> int:
    with pytest.raises(StoreError, match="No space left"):
        for _ in range(1000):
            store.append("thing", {"padding": "x" * 3000})
    return store.seq


def test_a_full_disk_refuses_the_event_and_keeps_the_store(tiny_disk: Path) -> None:
    folder = tiny_disk / "run"
    with RunStore(folder) as store:
        first = store.blobs.put(os.urandom(8000))
        written = fill(store)
        with pytest.raises(StoreError, match="No space left"):
            store.blobs.put(os.urandom(200_000))
    assert len(list(RunReader(folder).events())) == written
    with RunStore(folder) as store:
        assert store.seq == written
        (folder / "blobs" / first[:2] / f"{first}.z").unlink()
        store.append("after", {})
    assert RunReader(folder).verify() == []


LIMITED = """
import resource, sys
from pathlib import Path
from modularrsi.errors import StoreError
from modularrsi.store import RunStore
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with RunStore(Path(sys.argv[1])) as store:
    try:
        for _ in range(100):
            store.append("thing", {"padding": "x" * 3000}, durable=True)
    except StoreError as error:
        print(store.seq, error)
"""


def test_a_file_size_limit_is_met_the_same_way(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 ")
    assert "File too large" in done.stdout
    with RunStore(tmp_path) as store:
        assert store.seq == 6
        store.append("after", {})
    assert RunReader(tmp_path).verify() == []
    assert not (tmp_path / "torn").exists()
