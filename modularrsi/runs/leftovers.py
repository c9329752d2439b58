"""What killed engines left behind, found by label and private folder, and removed before a run goes on.

A run's private folder names its engine (`owner.json`). The run at hand is cleared because the store's lock says that no
other engine works on it; any other run's only if the engine that it names is dead.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

from modularrsi.cage.worker import reap_workers
from modularrsi.digest import digest_text
from modularrsi.errors import SandboxError
from modularrsi.paths import scratch_root
from modularrsi.processes import Process, identify, is_alive
from modularrsi.sandbox.preflight import reap
from modularrsi.terminal.server import reap as reap_terminals

_OWNER = "owner.json"
LABEL = "modularrsi.run"


def run_scratch(run_key: str) -> Path:
    """The private folder of all rollouts of one run: the same after a kill, so that it can be cleared. Short, since
    sockets lie below it."""
    return scratch_root() / digest_text(run_key)[:12]


async def take_over(kind: str, run_key: str) -> list[str]:
    """Clear this run's remains and those of every dead engine, then mark the folder as this engine's.

    Raises SandboxError when something of this run cannot be removed. Returns what could not be removed of others.
    """
    await _clear(kind, run_key, run_scratch(run_key))
    problems = await _clear_the_dead()
    folder = run_scratch(run_key)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    me = identify(os.getpid()) or Process(os.getpid(), 0)
    (folder / _OWNER).write_text(json.dumps({"pid": me.pid, "started": me.start, "kind": kind, "run": run_key}))
    return problems


def leave(run_key: str) -> None:
    """Remove the folder: the built environments, and the mark. Rollouts have removed their own folders."""
    shutil.rmtree(run_scratch(run_key), ignore_errors=True)


async def _clear_the_dead() -> list[str]:
    problems = []
    for folder in sorted(scratch_root().iterdir()):
        owner = _dead_owner(folder / _OWNER)
        if owner is None:
            continue
        kind, run_key = owner
        try:
            await _clear(kind, run_key, folder)
        except SandboxError as error:
            problems.append(f"{folder}: left by a killed engine, and cannot be cleared: {error}")
    return problems


def _dead_owner(file: Path) -> tuple[str, str] | None:
    """(kind, run key) when the engine that the file names is dead; None when it lives or there is no such file."""
    try:
        owner = json.loads(file.read_text())
        process = Process(int(owner["pid"]), int(owner["started"]))
        return None if is_alive(process) else (str(owner["kind"]), str(owner["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


async def _clear(kind: str, run_key: str, folder: Path) -> None:
    """Terminals first (their panes hold sandboxes), then sandboxes, then files. Bounded in time by each reaper."""
    if folder.is_dir():
        for rollout in sorted(path for path in folder.iterdir() if path.is_dir()):
            await asyncio.to_thread(reap_terminals, rollout)
    await reap(kind, {LABEL: run_key}, folder)
    await asyncio.to_thread(reap_workers, f"{folder.name}-")
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
