"""Nothing that comes out of a sandbox writes outside its target."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.sandbox import archive
from modularrsi.sandbox.archive import folder_entries, pack, unpack


def _tar(*members: tarfile.TarInfo, data: bytes = b"data") -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    stream.seek(0)
    return stream


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def test_hostile_members_are_left_out(tmp_path: Path) -> None:
    target = tmp_path / "in/target"
    (tmp_path / "victim").mkdir()
    stream = _tar(
        _member("../up"),
        _member("/absolute"),
        _member("a/../../up"),
        _member("link", tarfile.SYMTYPE, str(tmp_path / "victim")),
        _member("link/through"),
        _member("hard", tarfile.LNKTYPE, "/etc/passwd"),
        _member("pipe", tarfile.FIFOTYPE),
        _member("disk", tarfile.BLKTYPE),
        _member("fine/file"),
    )
    unpack(stream, target)
    found = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    assert found == {"link", "link/through", "fine", "fine/file"}
    assert not (target / "link").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"victim", "in"}
    assert list((tmp_path / "victim").iterdir()) == []


def test_setuid_and_unreadable_modes_do_not_come_out(tmp_path: Path) -> None:
    member = _member("tool")
    member.mode = 0o4000
    unpack(_tar(member), tmp_path / "out")
    assert (tmp_path / "out/tool").stat().st_mode & 0o7777 == 0o600


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    with pytest.raises(ValueError, match="more than 3 files"):
        unpack(_tar(*(_member(str(number)) for number in range(4))), tmp_path / "many")
    monkeypatch.setattr(archive, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="10 bytes"):
        unpack(_tar(_member("big"), data=b"x" * 11), tmp_path / "big")


def test_pack_and_unpack_are_inverse_for_plain_trees(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/c").write_bytes(b"\0\1")
    (source / "a/run").write_text("x")
    (source / "a/run").chmod(0o755)
    stream = io.BytesIO()
    pack(folder_entries(source), stream)
    stream.seek(0)
    unpack(stream, tmp_path / "target")
    assert (tmp_path / "target/a/b/c").read_bytes() == b"\0\1"
    assert (tmp_path / "target/a/run").stat().st_mode & 0o777 == 0o755


_KINDS = [tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
_NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "", "x y"]), min_size=1, max_size=6).map("/".join)


@given(st.lists(st.tuples(_NAMES, st.sampled_from(_KINDS), _NAMES), max_size=8))
def test_no_archive_writes_outside(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, bytes, str]]
) -> None:
    base = tmp_path_factory.mktemp("any")
    with contextlib.suppress(OSError, ValueError, tarfile.TarError):
        unpack(_tar(*(_member(*member) for member in members)), base / "in/target")
    assert {path.name for path in base.iterdir()} <= {"in"}
    assert {path.name for path in (base / "in").iterdir()} <= {"target"}
