"""The books of a run, from its journal alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from modularrsi.gateway.budget import TOTAL
from modularrsi.gateway.journal import CallOutcome, CallStart, Key
from modularrsi.gateway.spending import Spending


def books(history: Iterable[CallStart | CallOutcome]) -> dict[str, Any]:
    """The state for `Ledger.restore`: what all recorded calls cost, and the worst case of those that were cut off.

    An outcome accounts for its own starts. A start without one belongs to a call that was under way when a session
    ended: it may have been paid even if it was asked again, and paid, later.
    """
    accounts: defaultdict[str, Spending] = defaultdict(Spending)
    open_starts: defaultdict[Key, list[CallStart]] = defaultdict(list)
    elapsed = 0.0
    for entry in history:
        elapsed = max(elapsed, entry.elapsed)
        if isinstance(entry, CallStart):
            open_starts[entry.key].append(entry)
            continue
        starts = open_starts[entry.key]
        del starts[max(0, len(starts) - entry.attempts) :]
        for name in (TOTAL, entry.role):
            accounts[name].add(entry.spending)
    for start in (start for starts in open_starts.values() for start in starts):
        for name in (TOTAL, start.role):
            accounts[name].add_possible(start.tokens, start.usd)
    return {"elapsed": elapsed, "accounts": {name: spent.to_json() for name, spent in accounts.items()}}
