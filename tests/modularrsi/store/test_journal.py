"""The journal of calls: what was answered is found again, also by the next process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from modularrsi.errors import StoreError
from modularrsi.store import RunReader, RunStore
from modularrsi.store.journal import INLINE_BYTES, CallJournal, CallKey

REPLY = {"text": "näh\n", "usage": {"prompt_tokens": 3, "completion_tokens": None}, "cost": None}


def test_an_answered_call_is_found_by_the_next_process(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        assert journal.find("rollout/a/1", 0, "d") is None
        journal.sent("rollout/a/1", 0, "d", model="m")
        journal.done("rollout/a/1", 0, "d", REPLY, cost=None, usage={"prompt_tokens": 3})
        assert journal.find("rollout/a/1", 0, "d") == REPLY
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        assert journal.find("rollout/a/1", 0, "d") == REPLY
        for other in (("rollout/a/2", 0, "d"), ("rollout/a/1", 1, "d"), ("rollout/a/1", 0, "e")):
            assert journal.find(*other) is None
        assert journal.unanswered == []
    events = list(RunReader(tmp_path).events())
    assert [event.type for event in events] == ["call.sent", "call.done"]
    assert events[0].data["model"] == "m"
    assert events[1].data["cost"] is None
    assert RunReader(tmp_path).verify() == []


def test_a_call_that_was_sent_and_not_answered_is_counted_once(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        journal.sent("b", 1, "d")
        journal.sent("a", 1, "d")
        journal.sent("c", 1, "d")
        journal.done("c", 1, "d", REPLY)
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        assert journal.unanswered == [CallKey("b", 1, "d"), CallKey("a", 1, "d")]
        journal.sent("b", 1, "d")
        journal.done("b", 1, "d", REPLY)
        assert journal.unanswered == [CallKey("a", 1, "d")]


def test_each_answer_of_a_call_that_was_asked_twice_is_kept(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        for text in ("first", "second"):
            journal.sent("a", 1, "d")
            journal.done("a", 1, "d", {"text": text})
        assert journal.find("a", 1, "d") == {"text": "second"}
        done = [event for event in store.events() if event.type == "call.done"]
        assert [journal.reply_of(event)["text"] for event in done] == ["first", "second"]


def test_a_reply_that_was_paid_for_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        journal.sent("a", 1, "d")
        journal.done("a", 1, "d", {"text": "x" * INLINE_BYTES})
        assert journal.find("a", 1, "d") == {"text": "x" * INLINE_BYTES}
        (blob,) = store.blobs
        (tmp_path / "blobs" / blob[:2] / f"{blob}.z").unlink()
        with pytest.raises(StoreError, match=blob):
            journal.find("a", 1, "d")


def test_a_reply_that_is_not_json_is_refused_before_it_is_recorded(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)
        with pytest.raises(StoreError, match="reply 1 of a"):
            journal.done("a", 1, "d", {"cost": float("nan")})
        assert store.seq == 0


def test_many_threads_record_their_calls(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        journal = CallJournal(store)

        def work(scope: str) -> None:
            for ordinal in range(5):
                journal.sent(scope, ordinal, "d")
                journal.done(scope, ordinal, "d", {"text": f"{scope} {ordinal}"})

        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(journal.find(str(n), o, "d") == {"text": f"{n} {o}"} for n in range(6) for o in range(5))
    assert RunReader(tmp_path).verify() == []
