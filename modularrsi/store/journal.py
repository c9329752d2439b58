"""The calls of a run, so that a run that was killed never pays for a recorded reply twice.

Two events a call: `call.sent` is on the disk before the request leaves, `call.done` with the reply before anybody acts
on the reply. Replies stand in the log itself (two fsyncs a call instead of four), very long ones in blobs; in memory
there is only where they are. A call that was sent and never done may have been paid for: it is counted, not guessed at.

A call's key is `(scope, ordinal, request_digest)`: which rollout or operator asked, its how-manieth call it was, and
what it asked. The gateway knows this class by its shape only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from modularrsi.digest import canonical_json
from modularrsi.errors import StoreError
from modularrsi.store.events import Event
from modularrsi.store.run import RunStore

SENT, DONE = "call.sent", "call.done"
INLINE_BYTES = 256 * 1024


class CallKey(NamedTuple):
    scope: str
    ordinal: int
    request_digest: str


class CallJournal:
    """Thread-safe. Reads the run's earlier calls once, when it is made."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._replies: dict[CallKey, int] = {}
        self._open: dict[CallKey, int] = {}
        for event in store.events():
            self._note(event)

    def find(self, scope: str, ordinal: int, request_digest: str) -> dict[str, Any] | None:
        """The reply as it was given to `done`, or None when this call was never answered.

        Raises StoreError when it was answered and the reply cannot be read: asking again would pay twice.
        """
        offset = self._replies.get(CallKey(scope, ordinal, request_digest))
        return None if offset is None else self.reply_of(self._store.event_at(offset))

    def sent(self, scope: str, ordinal: int, request_digest: str, **facts: Any) -> None:
        """On the disk when this returns: call it before the request leaves. `facts` (model, purpose …) are kept."""
        self._add(SENT, CallKey(scope, ordinal, request_digest), facts)

    def done(self, scope: str, ordinal: int, request_digest: str, reply: Mapping[str, Any], **facts: Any) -> None:
        """Record the reply (a JSON object); durable when this returns. `facts`: usage, cost (None = unknown) …"""
        try:
            body = canonical_json(dict(reply))
        except ValueError as error:
            raise StoreError(f"reply {ordinal} of {scope}: {error}") from error
        kept = {"reply": dict(reply)} if len(body) <= INLINE_BYTES else {"reply_blob": self._store.blobs.put(body)}
        self._add(DONE, CallKey(scope, ordinal, request_digest), {**facts, **kept})

    def reply_of(self, event: Event) -> dict[str, Any]:
        """The reply that this very `call.done` recorded (a call may have been answered more than once)."""
        if "reply" in event.data:
            return event.data["reply"]
        return json.loads(self._store.blobs.get(event.data["reply_blob"]))

    @property
    def unanswered(self) -> list[CallKey]:
        """Calls that were sent and not answered, in the order of sending: killed in between, or failed."""
        with self._lock:
            return sorted(self._open, key=self._open.__getitem__)

    def _add(self, kind: str, key: CallKey, facts: Mapping[str, Any]) -> None:
        with self._lock:
            event = self._store.append(kind, {**facts, **key._asdict()})
            self._note(event)
        self._store.commit()

    def _note(self, event: Event) -> None:
        if event.type not in (SENT, DONE):
            return
        key = CallKey(event.data["scope"], event.data["ordinal"], event.data["request_digest"])
        if event.type == SENT:
            self._open[key] = event.seq
        else:
            self._open.pop(key, None)
            self._replies[key] = event.offset
