"""Blobs: the bytes come back, or an error that names the blob does."""

from __future__ import annotations

import tempfile
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modularrsi.errors import StoreError
from modularrsi.store import Blobs, RunReader, RunStore


@given(st.binary(max_size=5000))
@settings(max_examples=40, deadline=None)
def test_any_bytes_come_back(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        blobs = Blobs(Path(name))
        digest = blobs.put(data)
        assert blobs.put(data) == digest
        assert blobs.get(digest) == data
        assert list(blobs) == [digest]
        assert digest in blobs


def stored(folder: Path, data: bytes) -> tuple[Blobs, str, Path]:
    blobs = Blobs(folder)
    digest = blobs.put(data)
    return blobs, digest, folder / digest[:2] / f"{digest}.z"


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_changed_byte_is_noticed(draw: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = b"some text, some text, some more text" * 3
        blobs, digest, path = stored(Path(name), data)
        packed = bytearray(path.read_bytes())
        packed[draw.draw(st.integers(0, len(packed) - 1))] ^= draw.draw(st.integers(1, 255))
        path.write_bytes(packed)
        try:
            assert blobs.get(digest) == data  # a few header bits of a zlib stream carry no meaning
        except StoreError as error:
            assert digest in str(error)


PACKED = zlib.compress(b"data")


@pytest.mark.parametrize("packed", [b"", zlib.compress(b"other"), PACKED[:-3], PACKED + b"x"])
def test_other_content_cut_content_and_extra_content_are_noticed(tmp_path: Path, packed: bytes) -> None:
    blobs, digest, path = stored(tmp_path, b"data")
    path.write_bytes(packed)
    with pytest.raises(StoreError, match=digest):
        blobs.get(digest)


def test_a_missing_blob_and_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        Blobs(tmp_path).get("0" * 64)
    for name in ("../../etc/passwd", "ab", "A" * 64):
        with pytest.raises(StoreError, match="is not a blob's digest"):
            Blobs(tmp_path).get(name)


def test_content_is_compressed(tmp_path: Path) -> None:
    _, _, path = stored(tmp_path, b"x" * 100_000)
    assert path.stat().st_size < 1000


def test_threads_put_the_same_content(tmp_path: Path) -> None:
    blobs, digests = Blobs(tmp_path), []
    threads = [threading.Thread(target=lambda: digests.append(blobs.put(b"same" * 10_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 8
    assert list(blobs) == [digests[0]]
    assert not list(tmp_path.glob("??/.*"))


def test_the_writer_sweeps_what_a_killed_one_left(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        digest = store.blobs.put(b"data")
    left = tmp_path / "blobs" / digest[:2] / ".half.z.1.ab.tmp"
    left.write_bytes(b"half")
    with RunStore(tmp_path) as store:
        assert not left.exists()
        assert store.blobs.get(digest) == b"data"


def test_verify_names_missing_and_damaged_blobs(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        good, bad, gone = (store.blobs.put(data) for data in (b"good", b"bad", b"gone"))
        store.append("thing", {"blob": good, "inner": [{"trace_blob": [bad, gone]}]})
    (tmp_path / "blobs" / bad[:2] / f"{bad}.z").write_bytes(zlib.compress(b"worse"))
    (tmp_path / "blobs" / gone[:2] / f"{gone}.z").unlink()
    problems = {problem.where: problem.message for problem in RunReader(tmp_path).verify()}
    assert problems.keys() == {bad, gone}
    assert "does not match its name" in problems[bad]
    assert "event 1 names this blob" in problems[gone]
