"""The event log: what is appended comes back, a cut end is mended, damage is named."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modularrsi.errors import StoreError
from modularrsi.store import RunReader, RunStore

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # hundreds of runs: spare the disk its fsyncs

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
payloads = st.lists(st.dictionaries(st.text(max_size=8), values, max_size=4), min_size=1, max_size=8)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def written(batch: list[dict[str, Any]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name) / "run"
        with RunStore(folder) as store:
            for data in batch:
                store.append("thing", data)
        yield folder


def data_of(folder: Path) -> list[dict[str, Any]]:
    return [event.data for event in RunReader(folder).events()]


@given(payloads)
@few
def test_any_events_come_back_in_order(batch: list[dict[str, Any]]) -> None:
    with written(batch) as folder:
        assert data_of(folder) == batch
        assert [event.seq for event in RunReader(folder).events()] == list(range(1, len(batch) + 1))
        assert RunReader(folder).verify() == []


@given(payloads, st.data())
@few
def test_any_truncation_reopens_to_a_prefix_and_goes_on(batch: list[dict[str, Any]], draw: st.DataObject) -> None:
    with written(batch) as folder:
        log = folder / "events.jsonl"
        whole = log.read_bytes()
        cut = draw.draw(st.integers(0, len(whole)))
        log.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        with RunStore(folder) as store:
            assert complete <= store.seq <= complete + 1
            kept = store.seq
            store.append("next", {"n": 1})
        assert data_of(folder) == [*batch[:kept], {"n": 1}]
        assert RunReader(folder).verify() == []


@given(st.lists(st.dictionaries(st.sampled_from(["a", "hash", "data"]), values, min_size=1), min_size=2, max_size=5),
       st.data())
@few
def test_any_changed_byte_before_the_last_line_is_damage(batch: list[dict[str, Any]], draw: st.DataObject) -> None:
    with written(batch) as folder:
        log = folder / "events.jsonl"
        whole = bytearray(log.read_bytes())
        last_line = whole.rindex(b"\n", 0, len(whole) - 1)
        where = draw.draw(st.integers(0, last_line))
        whole[where] ^= draw.draw(st.integers(1, 255))
        log.write_bytes(whole)
        with pytest.raises(StoreError, match=r"events\.jsonl, line \d+"):
            RunStore(folder)
        with pytest.raises(StoreError, match=r"events\.jsonl, line \d+"):
            data_of(folder)
        assert RunReader(folder).verify() != []
        assert log.read_bytes() == whole


@given(st.data())
@few
def test_a_changed_byte_in_the_last_line_never_passes_as_an_event(draw: st.DataObject) -> None:
    with written([{"n": 1}, {"n": 2, "text": "näh"}]) as folder:
        log = folder / "events.jsonl"
        whole = bytearray(log.read_bytes())
        where = draw.draw(st.integers(whole.index(b"\n") + 1, len(whole) - 2))
        whole[where] ^= draw.draw(st.integers(1, 255))
        log.write_bytes(whole)
        try:
            with RunStore(folder):
                pass
        except StoreError:
            return
        assert data_of(folder) == [{"n": 1}]


@pytest.mark.parametrize("garbage", [b"\x00" * 5000, b"garbage\n\xff\xfe", b'{"at":"', b"\n", b'{"hash":"' + b"a" * 64])
def test_garbage_after_the_last_event_is_kept_aside(tmp_path: Path, garbage: bytes) -> None:
    with RunStore(tmp_path) as store:
        store.append("thing", {"n": 1}, durable=True)
    with (tmp_path / "events.jsonl").open("ab") as log:
        log.write(garbage)
    with RunStore(tmp_path) as store:
        assert store.seq == 1
    assert [path.read_bytes() for path in (tmp_path / "torn").iterdir()] == [garbage]


def test_a_whole_last_line_that_was_edited_is_damage(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append("score", {"reward": 0})
    log = tmp_path / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"reward":0', b'"reward":1'))
    with pytest.raises(StoreError, match=r"line 1: its hash does not match"):
        RunStore(tmp_path)


@pytest.mark.parametrize("edit", ["drop", "swap", "repeat"])
def test_lines_that_were_dropped_swapped_or_repeated_are_damage(tmp_path: Path, edit: str) -> None:
    with RunStore(tmp_path) as store:
        for n in range(4):
            store.append("thing", {"n": n})
    log = tmp_path / "events.jsonl"
    a, b, c, d = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join({"drop": [a, c, d], "swap": [a, c, b, d], "repeat": [a, b, b, c, d]}[edit]))
    with pytest.raises(StoreError, match=r"line [23]"):
        RunStore(tmp_path)


def test_a_torn_line_that_holds_a_hash_of_its_own_is_still_torn(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append("thing", {"n": 1})
        store.append("thing", {"inner": {"at": "x", "hash": "a" * 64}, "rest": "b" * 50})
    log = tmp_path / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"b" * 50)])
    with RunStore(tmp_path) as store:
        assert store.seq == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, b"bytes", {1: "x"}, {"a": {None: 1}}, object()])
def test_what_json_lacks_is_refused_and_leaves_no_trace(tmp_path: Path, bad: object) -> None:
    with RunStore(tmp_path) as store:
        with pytest.raises(StoreError):
            store.append("thing", {"value": bad})
        store.append("thing", {"value": 1})
    assert data_of(tmp_path) == [{"value": 1}]


def test_a_number_that_no_reader_would_read_is_refused(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store, pytest.raises(StoreError):
        store.append("thing", {"value": 10**5000})


def test_endless_nesting_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with RunStore(tmp_path) as store, pytest.raises(StoreError):
        store.append("thing", {"loop": loop})


def test_an_event_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store, pytest.raises(StoreError, match="use a blob"):
        store.append("thing", {"text": "x" * (16 * 1024 * 1024)})


def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        assert store.append("thing", {"text": "a\udc80b"}).data == {"text": "a\ufffdb"}
    json.loads((tmp_path / "events.jsonl").read_text("utf-8"))


def test_threads_append_and_commit_without_breaking_the_chain(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        def work(thread: int) -> None:
            for n in range(25):
                store.append("thing", {"thread": thread, "n": n}, durable=n % 5 == 0)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert RunReader(tmp_path).verify() == []
    per_thread = {n: [data["n"] for data in data_of(tmp_path) if data["thread"] == n] for n in range(8)}
    assert per_thread == {n: list(range(25)) for n in range(8)}


def test_a_reader_follows_a_live_writer(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        reader = RunReader(tmp_path)
        store.append("thing", {"n": 1})
        iterator = reader.events()
        assert next(iterator).data == {"n": 1}
        store.append("thing", {"n": 2})
        assert next(iterator).data == {"n": 2}
        assert next(iterator, None) is None
        assert [event.seq for event in reader.events(after=1)] == [2]


def test_a_reader_is_never_confused_by_a_busy_writer(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        def write() -> None:
            for n in range(300):
                store.append("thing", {"n": n, "padding": "x" * 3000})
        writer = threading.Thread(target=write)
        writer.start()
        reader = RunReader(tmp_path)
        seen = 0
        while writer.is_alive():
            now = [event.data["n"] for event in reader.events()]
            assert now == list(range(len(now)))
            assert len(now) >= seen
            seen = len(now)
        writer.join()


def test_a_half_written_line_is_read_once_it_is_finished(tmp_path: Path) -> None:
    with RunStore(tmp_path / "a") as store:
        store.append("thing", {"n": 1})
        store.append("thing", {"n": 2})
    whole = (tmp_path / "a" / "events.jsonl").read_bytes()
    log = tmp_path / "b" / "events.jsonl"
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    log.write_bytes(whole[:-30])
    assert data_of(tmp_path / "b") == [{"n": 1}]
    log.write_bytes(whole)
    assert data_of(tmp_path / "b") == [{"n": 1}, {"n": 2}]


def test_state_is_a_fold(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for n in (1, 2, 3):
            store.append("add", {"n": n})
        assert store.fold(lambda total, event: total + event.data["n"], 0) == 6
        assert store.fold(lambda total, event: total + event.data["n"], 0, after=2) == 3


def test_an_event_is_found_again_at_its_offset(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        appended = [store.append("thing", {"n": n}) for n in range(3)]
        assert [store.event_at(event.offset) for event in appended] == appended
    assert [event.offset for event in RunReader(tmp_path).events()] == [event.offset for event in appended]
    log = tmp_path / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"n":1', b'"n":7'))
    reader = RunReader(tmp_path)
    for offset in (appended[1].offset, 3, 10**6):
        with pytest.raises(StoreError, match=f"byte {offset}"):
            reader.event_at(offset)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run"):
        RunReader(tmp_path)
