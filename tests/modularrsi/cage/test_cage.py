"""The cage from the inside: code runs in it as a library's code would, after the boot code, and tries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from modularrsi.cage import python as boot
from modularrsi.cage.base import CageLimits, CageSpec
from modularrsi.cage.bubblewrap import BubblewrapCage
from modularrsi.cage.choose import choose_cage
from modularrsi.cage.open import NoCage
from modularrsi.cage.seccomp import worker_filter
from modularrsi.errors import UserError

CAGE = BubblewrapCage()
needs_bwrap = pytest.mark.skipif(not CAGE.available().usable, reason=CAGE.available().detail)


def inside(tmp_path: Path, code: str, limits: CageLimits | None = None) -> dict[str, str]:
    """Run attempts in the cage. `code` calls `attempt(name, function)`; the answers come back by name."""
    limits = limits or CageLimits(memory_bytes=256 * 1024 * 1024)
    prelude = (
        "import json\nanswers = {}\n"
        "def attempt(name, function):\n"
        "    try: answers[name] = 'ok ' + repr(function())[:200]\n"
        "    except BaseException as error: answers[name] = type(error).__name__\n"
    )
    command = boot.worker_command(limits)
    start = next(i for i, word in enumerate(command) if "harness.worker" in word)
    script = command[start].replace("from harness.worker import main\nsys.exit(main())", prelude + code)
    command[start] = script + "\nprint(json.dumps(answers))\n"
    spec = CageSpec("test", command, boot.readonly_files(tmp_path), limits)
    done = subprocess.run(
        CAGE.argv(spec), capture_output=True, text=True, timeout=60, env={"SECRET_API_KEY": "sk-canary"}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_bwrap
def test_no_process_no_program_no_socket(tmp_path: Path) -> None:
    answers = inside(tmp_path, """
import os, socket, subprocess, _posixsubprocess
attempt("socket", lambda: socket.socket())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("socketpair", lambda: socket.socketpair())
attempt("fork", lambda: os.fork())
attempt("exec", lambda: os.execv("/usr/bin/true", ["true"]))
attempt("spawn", lambda: os.posix_spawn(sys.executable, ["python"], {}))
attempt("subprocess", lambda: subprocess.run([sys.executable, "-c", "0"]))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
attempt("unshare", lambda: (libc.unshare(0x10000000), ctypes.get_errno()))
attempt("raw fork", lambda: (libc.syscall(57), ctypes.get_errno()))
attempt("mount", lambda: (libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), ctypes.get_errno()))
attempt("ptrace", lambda: (libc.ptrace(16, 1, 0, 0), ctypes.get_errno()))
""")
    refused = {"socket", "unix socket", "socketpair", "fork", "exec", "spawn", "subprocess"}
    assert {answers[name] for name in refused} == {"PermissionError"}
    for name in ("unshare", "raw fork", "mount", "ptrace"):
        assert answers[name] == "ok (-1, 1)"


@needs_bwrap
def test_nothing_of_the_host_is_there(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "visible.py").write_text("here = True\n")
    answers = inside(tmp_path, f"""
import os
attempt("environment", lambda: sorted(os.environ))
attempt("passwd", lambda: open("/etc/passwd").read())
attempt("home", lambda: os.listdir("/home"))
attempt("this file", lambda: open({__file__!r}).read())
attempt("store", lambda: os.listdir({str(Path.cwd())!r}))
attempt("library", lambda: open("/cage/library/modules/visible.py").read())
attempt("write library", lambda: open("/cage/library/modules/visible.py", "a"))
attempt("write harness", lambda: open("/cage/lib/harness/kernel.py", "a"))
attempt("write root", lambda: open("/new", "w"))
attempt("processes", lambda: len([name for name in os.listdir("/proc") if name.isdigit()]))
attempt("devices", lambda: sorted(set(os.listdir("/dev")) & {{"sda", "vda", "kvm", "mem", "fuse", "loop0"}}))
attempt("engine package", lambda: __import__("modularrsi"))
attempt("site packages", lambda: __import__("pydantic"))
attempt("scratch", lambda: open("/tmp/x", "w").write("fine"))
""")
    assert "SECRET_API_KEY" not in answers["environment"]
    for name in ("passwd", "home", "this file", "store"):
        assert answers[name] == "FileNotFoundError", name
    assert answers["library"].startswith("ok")
    for name in ("write library", "write harness", "write root"):
        assert answers[name] == "OSError", name
    assert int(answers["processes"].removeprefix("ok ")) <= 2
    assert answers["devices"] == "ok []"
    assert answers["engine package"] == answers["site packages"] == "ModuleNotFoundError"
    assert answers["scratch"] == "ok 4"


@needs_bwrap
def test_limits_hold_and_cannot_be_raised(tmp_path: Path) -> None:
    answers = inside(tmp_path, """
import resource
attempt("memory", lambda: len(bytearray(2 * 1024 ** 3)))
attempt("files", lambda: [open("/tmp/%d" % i, "w") for i in range(100)])
attempt("one file", lambda: open("/tmp/big", "wb").write(b"x" * (64 * 1024 * 1024)))
attempt("raise", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)))
""")
    assert answers["memory"] == "MemoryError"
    assert answers["files"] == answers["one file"] == "OSError"
    assert answers["raise"] in ("ValueError", "PermissionError")


def test_a_thread_is_allowed_and_a_process_is_not_on_both_architectures() -> None:
    for machine in ("x86_64", "aarch64"):
        program = worker_filter(machine)
        assert program is not None and len(program) % 8 == 0
    assert worker_filter("sparc") is None


def test_without_a_cage_the_engine_refuses_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modularrsi.cage.choose.CAGES", ())
    with pytest.raises(UserError, match="--no-cage"):
        choose_cage()
    cage = choose_cage(allow_none=True)
    assert isinstance(cage, NoCage)
    assert cage.isolation.startswith("none")


def test_the_strongest_cage_is_taken() -> None:
    if CAGE.available().usable:
        assert choose_cage().kind == "bubblewrap"


def test_every_cage_starts_the_interpreter_that_runs_the_engine() -> None:
    assert boot.worker_command(CageLimits())[0] == str(Path(sys.executable).resolve())
