"""What a killed engine left behind, found by the run's label and its private folder, and removed before going on."""

from __future__ import annotations

import asyncio
import shutil

from modularrsi.digest import digest_text
from modularrsi.paths import scratch_root
from modularrsi.sandbox.preflight import reap
from modularrsi.terminal.server import reap as reap_terminals


async def clear_leftovers(kind: str, run_key: str) -> None:
    """Bounded in time; safe, because the store's lock says that no other engine works on this run."""
    folder = scratch_root() / digest_text(run_key)[:12]
    if folder.is_dir():
        for rollout in sorted(folder.iterdir()):
            await asyncio.to_thread(reap_terminals, rollout)
    await reap(kind, {"modularrsi.run": run_key}, folder)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
