"""What is asked of Landlock, ABI by ABI; that it holds is shown from the inside (`test_inside.py`)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from support.cages import attempts, usable_cage

from modularrsi.cage import landlock
from modularrsi.cage.landlock import LandlockCage, rules, ruleset


@pytest.mark.parametrize(
    ("version", "attributes"),
    [
        (1, (0x1FFF,)),  # execute … make_sym
        (2, (0x3FFF,)),  # and refer
        (3, (0x7FFF,)),  # and truncate
        (4, (0x7FFF, 3)),  # and bind, connect
        (5, (0xFFFF, 3)),  # and ioctl of devices
        (6, (0xFFFF, 3, 3)),  # and abstract sockets, signals
        (9, (0xFFFF, 3, 3)),  # a newer kernel takes what the newest ABI known here asks
    ],
)
def test_all_that_an_abi_can_forbid_is_forbidden(version: int, attributes: tuple[int, ...]) -> None:
    assert struct.unpack(f"<{len(attributes)}Q", ruleset(version)) == attributes


def test_only_reading_is_granted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert rules([tmp_path, file]) == [(str(tmp_path), 0b1100), (str(file), 0b0100), ("/dev/null", 0b0110)]


def test_a_kernel_without_it_is_told_from_one_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    landlock._probe.cache_clear()
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    try:
        found = LandlockCage().available()
    finally:
        landlock._probe.cache_clear()
    assert not found.usable
    assert "no Landlock" in found.detail and "5.13" in found.fix and found.isolation.startswith("landlock")


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_what_an_old_kernel_cannot_forbid_the_filter_does(
    version: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cage = usable_cage("landlock", monkeypatch)
    monkeypatch.setattr(landlock, "abi", lambda: version)
    file = tmp_path / "readable.txt"
    file.write_text("content")
    answers = attempts(cage, tmp_path, f"""
        import socket, ctypes
        file = {str(file)!r}
        libc = ctypes.CDLL(None, use_errno=True)
        attempt("read", lambda: open(file).read())
        attempt("open to empty", lambda: os.open(file, os.O_RDONLY | os.O_TRUNC))
        attempt("truncate", lambda: os.truncate(file, 0))
        attempt("truncate by handle", lambda: os.ftruncate(os.open(file, os.O_RDONLY), 0))
        attempt("move", lambda: os.rename(file, {str(tmp_path / "modules")!r}))
        attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9)))
        attempt("signal", lambda: os.kill({os.getpid()}, 0))
        number = 2 if os.uname().machine == "x86_64" else 9999  # open
        answers["old open"] = str(libc.syscall(number, file.encode(), os.O_TRUNC))
        answers["creat"] = str(libc.creat(file.encode(), 0o600))
    """)
    assert answers.pop("read") == "ok 'content'"
    assert answers.pop("old open") == answers.pop("creat") == "-1"
    assert [name for name, said in answers.items() if said.startswith("ok")] == []
    assert file.read_text() == "content"
    assert f"ABI {version}" in cage.isolation
