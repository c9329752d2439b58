"""The preflight tries a real bwrap, and says how to mend what it finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modularrsi.errors import UserError
from modularrsi.sandbox import KINDS, availability, bwrap_probe, make_sandbox
from modularrsi.sandbox.base import SandboxSpec
from modularrsi.sandbox.bwrap_probe import bubblewrap_availability
from modularrsi.sandbox.bwrap_root import ids_for_this_user


def _refusing(tmp_path: Path, message: str) -> str:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 1\n")
    program.chmod(0o755)
    return str(program)


def test_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = bubblewrap_availability()
    assert not answer.usable
    assert "apt-get install bubblewrap" in answer.fix


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "/etc/apparmor.d/bwrap"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces="),
        ("kernel/other", "1", "docker"),
    ],
)
def test_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, value: str, fix: str) -> None:
    (tmp_path / setting).parent.mkdir(parents=True)
    (tmp_path / setting).write_text(value + "\n")
    monkeypatch.setattr(bwrap_probe, "_SYSCTL", tmp_path)
    answer = bubblewrap_availability(_refusing(tmp_path, "setting up uid map: Permission denied"))
    assert not answer.usable
    assert "setting up uid map" in answer.detail
    assert fix in answer.fix


def test_a_usable_one_says_what_isolates() -> None:
    answer = bubblewrap_availability()
    if not answer.usable:
        pytest.skip(answer.detail)
    assert "bubblewrap" in answer.detail
    assert "private root" in answer.isolation


def test_root_without_many_ids_is_an_ordinary_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "few").write_text("         0       1000          1\n         1     100000      65536\n")
    (tmp_path / "all").write_text("         0          0 4294967295\n")
    assert ids_for_this_user(tmp_path / "few").base is None
    assert ids_for_this_user(tmp_path / "all").base is not None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert ids_for_this_user(tmp_path / "all").base is None


def test_every_kind_answers() -> None:
    assert [answer.kind for answer in availability()] == list(KINDS)
    assert all(answer.usable or answer.fix for answer in availability())


def test_an_unknown_kind_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bubblewrap"):
        make_sandbox("vm", SandboxSpec("x", tmp_path, tmp_path))
