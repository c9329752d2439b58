"""The gateway's journal, kept in the run's own store."""

from __future__ import annotations

from collections.abc import Iterator

from modularrsi.gateway.journal import CallOutcome, CallStart, line_from_json, line_to_json
from modularrsi.store import RunStore
from modularrsi.store.journal import DONE, SENT, CallJournal


class StoreJournal:
    """`modularrsi.gateway.journal.Journal` on a `RunStore`: every call is an event with its outcome."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._calls = CallJournal(store)

    def lookup(self, scope: str, ordinal: int, digest: str) -> CallOutcome | None:
        found = self._calls.find(scope, ordinal, digest)
        outcome = None if found is None else line_from_json(found)
        return outcome if isinstance(outcome, CallOutcome) else None

    def begin(self, start: CallStart) -> None:
        facts = {name: value for name, value in line_to_json(start).items() if name not in _KEY}
        self._calls.sent(*start.key, start=facts)

    def commit(self, outcome: CallOutcome) -> None:
        line = line_to_json(outcome)
        facts = {name: line[name] for name in ("role", "kind", "model", "cost_usd", "usage", "attempts", "cause")}
        self._calls.done(*outcome.key, line, **facts)

    def history(self) -> Iterator[CallStart | CallOutcome]:
        for event in self._store.events():
            data = event.data
            if event.type == SENT:
                key = {"scope": data["scope"], "ordinal": data["ordinal"], "digest": data["request_digest"]}
                yield line_from_json({**data["start"], **key})
            elif event.type == DONE:
                yield line_from_json(self._calls.reply_of(event))


_KEY = ("scope", "ordinal", "digest")
