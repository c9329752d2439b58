"""The system-call filter as a program: run here step by step, for both architectures, on calls with arguments."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from modularrsi.cage import seccomp
from modularrsi.cage.seccomp import worker_filter

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {
    "x86_64": {"clone": 56, "prctl": 157, "prlimit64": 302, "openat": 257, "read": 0, "futex": 202, "mmap": 9},
    "aarch64": {"clone": 220, "prctl": 167, "prlimit64": 261, "openat": 56, "read": 63, "futex": 98, "mmap": 222},
}


def verdict(program: bytes, arch: int, number: int, *words: int) -> int:
    """What the kernel would answer: an interpreter of the few BPF instructions that a seccomp filter uses."""
    arguments = [*words, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, arch, 0, *arguments)
    steps = list(struct.iter_unpack("<HBBI", program))
    at, loaded = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
            continue
        holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
        at += yes if holds else no


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def ask(machine: str, name: str | int, *words: int, **options: bool) -> int:
    program = worker_filter(machine, **options)
    assert program is not None
    return verdict(program, ARCH[machine], CALLS[machine][name] if isinstance(name, str) else name, *words)


def test_ordinary_work_passes(machine: str) -> None:
    for options in ({}, {"beside_others": True, "truncation": False}):
        for name in ("read", "futex", "mmap", "openat"):
            assert ask(machine, name, **options) == ALLOW


def test_a_thread_is_allowed_and_a_process_is_not(machine: str) -> None:
    assert ask(machine, "clone", 0x003D0F00) == ALLOW
    assert ask(machine, "clone", 17) == EPERM
    assert ask(machine, 435) == ENOSYS


def test_it_may_name_a_thread_and_not_outlive_the_engine(machine: str) -> None:
    assert ask(machine, "prctl", 15) == ALLOW
    assert ask(machine, "prctl", 1) == ask(machine, "prctl", 4) == ask(machine, "prctl", 22) == EPERM


def test_limits_are_its_own(machine: str) -> None:
    assert ask(machine, "prlimit64", 0) == ALLOW
    assert ask(machine, "prlimit64", 4711) == EPERM


def test_other_processes_are_out_of_reach_where_it_sees_them(machine: str) -> None:
    kill = {"x86_64": 62, "aarch64": 129}[machine]
    assert ask(machine, kill, 4711, 9) == ALLOW
    assert ask(machine, kill, 4711, 9, beside_others=True) == EPERM


def test_a_file_is_not_emptied_by_opening_it(machine: str) -> None:
    assert ask(machine, "openat", 0, 0, 0o1000, truncation=False) == EPERM
    assert ask(machine, "openat", 0, 0, 0, truncation=False) == ALLOW
    assert ask(machine, "openat", 0, 0, 0o1000) == ALLOW
    assert ask(machine, 437, truncation=False) == ENOSYS
    assert ask("x86_64", 2, 0, 0o1000, truncation=False) == EPERM


def test_other_tables_and_newer_calls_are_no_way_around() -> None:
    program = worker_filter("x86_64")
    assert program is not None
    assert verdict(program, 0x40000003, 11) == KILL  # 32-bit execve
    assert verdict(program, ARCH["x86_64"], 0x40000000 | 59) == KILL  # x32
    assert verdict(program, ARCH["x86_64"], 467) == ENOSYS
    assert worker_filter("sparc") is None


@pytest.mark.parametrize(
    ("column", "header", "pattern"),
    [
        (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
        (1, "/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+) (\d+)"),
    ],
)
def test_numbers_are_the_kernels(column: int, header: str, pattern: str) -> None:
    if not Path(header).is_file():
        pytest.skip(f"no {header} here")
    known = {name: int(number) for name, number in re.findall(pattern, Path(header).read_text())}
    table = seccomp._FORBIDDEN | seccomp._FORBIDDEN_BESIDE_OTHERS
    held = {name: numbers[column] for name, numbers in table.items() if name in known}
    assert len(held) > 80
    assert held == {name: known[name] for name in held}
