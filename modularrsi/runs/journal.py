"""The gateway's journal, kept in the run's own store."""

from __future__ import annotations

from collections.abc import Iterator

from modularrsi.gateway.journal import CallOutcome, CallStart, Key, line_from_json, line_to_json
from modularrsi.runs.state import RETRIED
from modularrsi.store import RunStore
from modularrsi.store.journal import DONE, SENT, CallJournal


class StoreJournal:
    """`modularrsi.gateway.journal.Journal` on a `RunStore`: every call is an event with its outcome.

    A rollout that is run again because it was unscored asks again what failed then; what was answered stays answered.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._calls = CallJournal(store)
        self._set_aside = _set_aside(store)

    def lookup(self, scope: str, ordinal: int, digest: str) -> CallOutcome | None:
        if (scope, ordinal, digest) in self._set_aside:
            return None
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
        self._set_aside.discard(outcome.key)

    def history(self) -> Iterator[CallStart | CallOutcome]:
        for event in self._store.events():
            data = event.data
            if event.type == SENT:
                key = {"scope": data["scope"], "ordinal": data["ordinal"], "digest": data["request_digest"]}
                yield line_from_json({**data["start"], **key})
            elif event.type == DONE:
                yield line_from_json(self._calls.reply_of(event))


def _set_aside(store: RunStore) -> set[Key]:
    """Calls that failed in a rollout before it was retried, and were not answered since."""
    failed: dict[str, set[Key]] = {}
    aside: set[Key] = set()
    for event in store.events():
        data = event.data
        if event.type == DONE:
            key = (data["scope"], data["ordinal"], data["request_digest"])
            of_rollout = failed.setdefault(data["scope"].rpartition("/")[0], set())
            (of_rollout.add if data.get("kind") == "failed" else of_rollout.discard)(key)
            aside.discard(key)
        elif event.type == RETRIED:
            aside |= failed.pop(data["id"], set())
    return aside


_KEY = ("scope", "ordinal", "digest")
