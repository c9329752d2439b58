"""Every cage from the inside: code runs in it as a library's code would, after the boot code, and tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cages import KINDS, attempts, usable_cage

from modularrsi.cage.base import Cage


@pytest.fixture(params=KINDS)
def cage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cage:
    return usable_cage(request.param, monkeypatch)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "library" / "modules").mkdir(parents=True)
    (tmp_path / "library" / "modules" / "visible.py").write_text("here = True\n")
    return tmp_path / "library"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the host, beside the library."""
    file = tmp_path / "secret.txt"
    file.write_text("host secret")
    file.chmod(0o666)
    return file


def refused(answers: dict[str, str], *but: str) -> None:
    assert {name: said for name, said in answers.items() if said.startswith("ok") and name not in but} == {}


def test_no_process_no_program_no_socket(cage: Cage, library: Path) -> None:
    answers = attempts(cage, library, """
        import socket, subprocess, ctypes
        attempt("socket", lambda: socket.socket())
        attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
        attempt("netlink", lambda: socket.socket(16, socket.SOCK_RAW, 0))
        attempt("socketpair", lambda: socket.socketpair())
        attempt("fork", lambda: os.fork())
        attempt("exec", lambda: os.execv(sys.executable, ["python", "-c", "0"]))
        attempt("spawn", lambda: os.posix_spawn(sys.executable, ["python"], {}))
        attempt("subprocess", lambda: subprocess.run([sys.executable, "-c", "0"]))
        libc = ctypes.CDLL(None, use_errno=True)
        def call(function, *words):
            attempt("call " + function, lambda: (getattr(libc, function)(*words), ctypes.get_errno()))
        call("unshare", 0x10000000)
        call("setns", 0, 0)
        call("mount", b"none", b"/tmp", b"tmpfs", 0, None)
        call("ptrace", 16, 1, 0, 0)
        call("syscall", 435, None, 0)  # clone3: ENOSYS, so that threads still work
        call("syscall", 9999)
    """)
    names = {"socket", "unix socket", "netlink", "socketpair", "fork", "exec", "spawn", "subprocess"}
    assert {answers[name] for name in names} == {"PermissionError"}
    for name in ("unshare", "setns", "mount", "ptrace"):
        assert answers[f"call {name}"] == "ok (-1, 1)"
    assert answers["call syscall"] == "ok (-1, 38)"


def test_nothing_of_the_host_is_there(cage: Cage, library: Path, secret: Path) -> None:
    inside = cage.library_path(library)
    answers = attempts(cage, library, f"""
        attempt("environment", lambda: sorted(os.environ))
        attempt("secret", lambda: open({str(secret)!r}).read())
        attempt("beside the library", lambda: os.listdir({str(secret.parent)!r}))
        attempt("up from the library", lambda: open({inside!r} + "/../secret.txt").read())
        attempt("this file", lambda: open({__file__!r}).read())
        attempt("store", lambda: os.listdir({str(Path.cwd())!r}))
        attempt("engine package", lambda: __import__("modularrsi"))
        attempt("site packages", lambda: __import__("pydantic"))
        attempt("device", lambda: [os.open("/dev/" + name, 0) for name in ("mem", "kvm", "fuse", "sda", "vda")])
        attempt("raw disk", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
        attempt("library", lambda: open({inside!r} + "/modules/visible.py").read())
        attempt("null", lambda: open(os.devnull, "w").write("x"))
    """)
    assert "SECRET_API_KEY" not in answers["environment"] and "DOCKER_HOST" not in answers["environment"]
    assert answers["library"].startswith("ok")
    assert answers["engine package"] == answers["site packages"] == "ModuleNotFoundError"
    refused(answers, "environment", "library", "null")


def test_nothing_is_changed(cage: Cage, library: Path, secret: Path) -> None:
    inside = cage.library_path(library)
    answers = attempts(cage, library, f"""
        secret, visible = {str(secret)!r}, {inside!r} + "/modules/visible.py"
        harness = sys.modules["harness"].__file__
        for name, path in (("secret", secret), ("library", visible), ("harness", harness)):
            attempt(name + " write", lambda: open(path, "a"))
            attempt(name + " truncate", lambda: os.truncate(path, 0))
            attempt(name + " open to empty", lambda: os.open(path, os.O_RDONLY | os.O_TRUNC))
            attempt(name + " remove", lambda: os.unlink(path))
            attempt(name + " rename", lambda: os.rename(path, path + ".old"))
            attempt(name + " link", lambda: os.link(path, "/tmp/link"))
            attempt(name + " replace", lambda: os.symlink("/etc/passwd", path + ".link"))
            attempt(name + " mode", lambda: os.chmod(path, 0o777))
            attempt(name + " owner", lambda: os.chown(path, 1, 1))
            attempt(name + " times", lambda: os.utime(path, (1, 1)))
            attempt(name + " attribute", lambda: os.setxattr(path, "user.mark", b"x"))
            attempt(name + " folder", lambda: os.mkdir(path + ".d"))
        attempt("root", lambda: open("/new", "w"))
        attempt("root folder", lambda: os.mkdir("/new"))
        attempt("home", lambda: open({str(Path.home() / ".planted-by-test")!r}, "w"))
        attempt("shared memory", lambda: open("/dev/shm/planted-by-test", "w"))
    """)
    refused(answers)
    assert secret.read_text() == "host secret" and secret.stat().st_mode & 0o777 == 0o666
    assert sorted(path.name for path in secret.parent.iterdir()) == ["library", "secret.txt"]
    assert [path.name for path in (library / "modules").iterdir()] == ["visible.py"]
    assert secret.stat().st_mtime > 1


def test_scratch_is_private_or_none(cage: Cage, library: Path) -> None:
    answers = attempts(cage, library, 'attempt("scratch", lambda: open("/tmp/cage-scratch", "w").write("fine"))')
    assert answers["scratch"] == ("PermissionError" if cage.kind == "landlock" else "ok 4")
    assert not Path("/tmp/cage-scratch").exists()


def test_no_other_process_is_reached(cage: Cage, library: Path) -> None:
    other = os.getpid()
    answers = attempts(cage, library, f"""
        import ctypes, resource
        other = {other}
        libc = ctypes.CDLL(None, use_errno=True)
        attempt("signal", lambda: os.kill(other, 0))
        attempt("group signal", lambda: os.killpg({os.getpgrp()}, 0))
        attempt("environ", lambda: open(f"/proc/{{other}}/environ", "rb").read())
        attempt("arguments", lambda: open(f"/proc/{{other}}/cmdline", "rb").read())
        attempt("memory", lambda: open(f"/proc/{{other}}/mem", "rb"))
        attempt("program", lambda: os.readlink(f"/proc/{{other}}/exe"))
        attempt("files", lambda: os.listdir(f"/proc/{{other}}/fd"))
        attempt("root", lambda: os.listdir(f"/proc/{{other}}/root"))
        attempt("limits", lambda: resource.prlimit(other, resource.RLIMIT_NOFILE))
        attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, other, 19))
        attempt("processors", lambda: os.sched_setaffinity(other, [0]))
        attempt("handle", lambda: os.pidfd_open(other))
        attempt("processes", lambda: sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
        answers["shared memory"] = str(libc.shmget(7, 4096, 0o1666))
        answers["stay alive"] = str(libc.prctl(1, 0, 0, 0, 0))
        answers["be dumped"] = str(libc.prctl(4, 1, 0, 0, 0))
    """)
    assert answers.pop("shared memory") == answers.pop("stay alive") == answers.pop("be dumped") == "-1"
    seen = answers.pop("processes")
    assert seen == "PermissionError" if cage.kind == "landlock" else len(seen.split(",")) <= 2
    refused(answers)


def test_it_has_no_capability(cage: Cage, library: Path) -> None:
    answers = attempts(cage, library, """
        import ctypes, struct
        libc = ctypes.CDLL(None, use_errno=True)
        sets = ctypes.create_string_buffer(24)
        attempt("asked", lambda: libc.capget(struct.pack("<Ii", 0x20080522, 0), sets))
        answers["capabilities"] = sets.raw.hex()
        attempt("root", lambda: os.setuid(0) if os.getuid() else 1 / 0)
        attempt("groups", lambda: os.setgroups([0]))
        answers["no new privileges"] = str(libc.prctl(39, 0, 0, 0, 0))
    """)
    assert answers["asked"] == "ok 0"
    assert set(answers["capabilities"]) == {"0"}
    assert not answers["root"].startswith("ok") and answers["groups"] == "PermissionError"


def test_limits_hold_and_cannot_be_raised(cage: Cage, library: Path) -> None:
    answers = attempts(cage, library, """
        import resource, threading
        attempt("memory", lambda: len(bytearray(2 * 1024 ** 3)))
        attempt("files", lambda: [os.dup(2) for _ in range(100)])
        os.closerange(3, 100)
        attempt("one file", lambda: open("/tmp/big", "wb").write(b"x" * (64 * 1024 * 1024)))
        attempt("raise", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)))
        attempt("look", lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
        thread = threading.Thread(target=lambda: answers.update(thread="ran"))
        thread.start()
        thread.join()
    """)
    assert answers["memory"] == "MemoryError"
    assert answers["files"] == "OSError"
    assert answers["one file"] in ("OSError", "PermissionError")
    assert answers["raise"] in ("ValueError", "PermissionError")
    assert answers["look"] == "ok (64, 64)"
    assert answers["thread"] == "ran"
