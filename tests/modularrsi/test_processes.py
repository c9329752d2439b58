"""Processes are killed whole, and only those that are meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modularrsi.processes import (
    Process,
    descendants,
    identify,
    is_alive,
    kill_all,
    kill_group,
    kill_tree,
    marked,
    read_stat,
    send,
    session_members,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def _start(script: str, **options: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen(["bash", "-c", script], **options)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _named(process: Process | None) -> Process:
    assert process is not None
    return process


def test_identity_is_pid_and_start_time() -> None:
    child = _start("sleep 100")
    process = _named(identify(child.pid))
    assert is_alive(process)
    recycled = Process(process.pid, process.start - 1)
    assert not is_alive(recycled)
    assert not send(recycled, signal.SIGKILL)
    assert child.poll() is None
    assert send(process, signal.SIGKILL)
    _until(lambda: not is_alive(process))  # a zombie until it is waited for: that counts as gone
    child.wait()
    assert identify(child.pid) is None


def test_a_name_with_parentheses_and_blanks_is_parsed() -> None:
    rename = "open('/proc/self/comm','w').write(') R 1 (x'); import time; time.sleep(100)"
    child = subprocess.Popen([sys.executable, "-c", rename])
    try:
        _until(lambda: Path(f"/proc/{child.pid}/comm").read_text().startswith(")"))
        stat = read_stat(child.pid)
        assert stat is not None
        assert (stat.pid, stat.ppid) == (child.pid, os.getpid())
    finally:
        child.kill()
        child.wait()


def test_a_tree_is_killed_even_while_it_forks() -> None:
    script = "f() { while :; do sleep 0.02 & done; }; f & f & wait"
    child = _start(script, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: os.nice(10))
    process = _named(identify(child.pid))
    _until(lambda: len(descendants(child.pid)) > 10)
    assert kill_tree(process) == []
    child.wait()
    assert session_members(child.pid) == []


def test_a_tree_includes_other_sessions_below_it() -> None:
    child = _start("setsid sleep 100 & setsid sleep 100 & wait")
    _until(lambda: len(descendants(child.pid)) == 2)
    below = descendants(child.pid)
    assert kill_tree(_named(identify(child.pid))) == []
    assert not any(is_alive(process) for process in below)
    child.wait()


def test_a_mark_finds_what_left_the_tree() -> None:
    value = f"{os.getpid()}-{time.monotonic_ns()}"
    child = _start("setsid sleep 100 & disown; exit", env={**os.environ, "TEST_MARK": value})
    child.wait()
    mark = f"TEST_MARK={value}".encode()
    _until(lambda: len(marked(mark)) == 1)
    assert marked(mark[:-1]) == []
    assert kill_all(lambda: marked(mark)) == []
    assert marked(mark) == []


def test_groups_and_sessions() -> None:
    child = _start("sleep 100 & sleep 100; :", start_new_session=True)
    _until(lambda: len(session_members(child.pid)) == 3)
    assert kill_group(child.pid)
    child.wait()
    _until(lambda: not session_members(child.pid))
    for own in (os.getpgrp(), 0, 1, -1):
        with pytest.raises(ValueError, match="refusing"):
            kill_group(own)


def test_kill_all_never_kills_its_caller() -> None:
    assert kill_all(lambda: [_named(identify(os.getpid()))], 0.2) == []
