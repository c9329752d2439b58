"""One writer: a live one is named, a dead one is taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modularrsi.errors import StoreError
from modularrsi.store import RunReader, RunStore
from modularrsi.store.lock import WriterLock

HOLDER = """
import sys, time
from pathlib import Path
from modularrsi.store import RunStore
store = RunStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.append("thing", {"n": number}, durable=True)
print("ready", flush=True)
while True:
    store.append("more", {"padding": "x" * 5000})
    time.sleep(0.0005)
"""


def hold(folder: Path, count: int = 3) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), str(count)], stdout=subprocess.PIPE,
                               cwd=root)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_live_writer_is_named_and_a_killed_one_taken_over(tmp_path: Path) -> None:
    process = hold(tmp_path)
    try:
        with pytest.raises(StoreError, match=f"process {process.pid} on .* is writing this run"):
            RunStore(tmp_path)
        assert [event.data["n"] for event in RunReader(tmp_path).events() if event.type == "thing"] == [0, 1, 2]
    finally:
        kill(process)
    with RunStore(tmp_path) as store:
        assert store.took_over is not None
        assert store.took_over.pid == process.pid
        assert store.seq >= 3
        store.append("after", {})
    assert RunReader(tmp_path).verify() == []


def test_a_kill_at_any_moment_leaves_a_store_that_opens(tmp_path: Path) -> None:
    seen = 0
    for round_ in range(3):
        process = hold(tmp_path, 1)
        time.sleep(0.01 * round_)
        kill(process)
        with RunStore(tmp_path) as store:
            assert store.seq > seen
            seen = store.seq
    assert RunReader(tmp_path).verify() == []


def test_letting_go_lets_the_next_in_and_leaves_nothing_to_take_over(tmp_path: Path) -> None:
    with RunStore(tmp_path):
        with pytest.raises(StoreError, match=f"process {os.getpid()} "):
            RunStore(tmp_path)
    with RunStore(tmp_path) as store:
        assert store.took_over is None


def test_closing_twice_is_fine_and_a_closed_store_says_so(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append("thing", {})


def foreign_record(path: Path, host: str, boot: str, age: float) -> None:
    record = {"pid": 4242, "started": 1, "host": host, "boot": boot}
    path.write_bytes(json.dumps(record).encode().ljust(512))
    then = time.time() - age
    os.utime(path, (then, then))


def test_a_writer_on_another_machine_counts_while_its_heart_beats(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    foreign_record(lock, "elsewhere", "another-boot", age=5)
    with pytest.raises(StoreError, match="process 4242 on elsewhere was writing this run"):
        WriterLock(lock)
    foreign_record(lock, "elsewhere", "another-boot", age=500)
    taken = WriterLock(lock)
    assert taken.took_over is not None
    assert taken.took_over.host == "elsewhere"
    taken.release()


def test_a_record_from_before_a_reboot_of_this_machine_does_not_wait(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    foreign_record(lock, os.uname().nodename[:64], "earlier-boot", age=1)
    WriterLock(lock).release()


def test_the_heart_beats(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    held = WriterLock(lock, heartbeat_sec=0.01)
    os.utime(lock, (1, 1))
    deadline = time.time() + 10
    while lock.stat().st_mtime == 1 and time.time() < deadline:
        time.sleep(0.01)
    held.release()
    assert lock.stat().st_mtime > 1
