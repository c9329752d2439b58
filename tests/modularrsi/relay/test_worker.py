"""The relay of a caged worker, as far as it needs no Engine: the archive it sends, the frames it takes apart."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.relay.start import relay_command
from modularrsi.relay.worker import BROKEN, Frames, archive


def test_the_archive_is_roots_and_holds_no_link(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir(mode=0o700)
    (tmp_path / "modules" / "a.py").write_text("a = 1\n")
    (tmp_path / "modules" / "a.py").chmod(0o666)
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    with tarfile.open(fileobj=io.BytesIO(archive([[str(tmp_path), "library"]]))) as tar:
        members = {member.name: member for member in tar.getmembers()}
        content = tar.extractfile("library/modules/a.py")
        assert content is not None and content.read() == b"a = 1\n"
    assert sorted(members) == ["library", "library/modules", "library/modules/a.py"]
    assert {(member.uid, member.gid, member.mode) for member in members.values()} == {(0, 0, 0o755), (0, 0, 0o644)}


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 50), min_size=1, max_size=8),
)
def test_frames_may_be_cut_anywhere(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(bytes([number, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for number, data in frames)
    heard = {1: b"", 2: b""}

    def write(target: int, data: bytes) -> None:
        heard[target] += data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("modularrsi.relay.worker.write", write)
        taken, at = Frames(), 0
        while at < len(stream):
            size = cuts[at % len(cuts)]
            taken.feed(stream[at : at + size])
            at += size
    assert heard == {number: b"".join(data for to, data in frames if to == number) for number in (1, 2)}


def test_without_an_engine_it_says_so_and_ends_as_a_broken_cage() -> None:
    plan = {"engine": "unix:///nonexistent/docker.sock", "name": "none", "container": {}, "files": []}
    done = subprocess.run(
        relay_command("worker", plan), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == BROKEN
    assert "/nonexistent/docker.sock cannot be reached" in done.stderr and done.stdout == ""
