"""The store of one run: hash-chained events, content-addressed blobs, one writer."""

from modularrsi.store.blobs import Blobs
from modularrsi.store.events import Event
from modularrsi.store.journal import CallJournal
from modularrsi.store.lock import Owner
from modularrsi.store.run import Problem, RunReader, RunStore

__all__ = ["Blobs", "CallJournal", "Event", "Owner", "Problem", "RunReader", "RunStore"]
