"""Real terminals for tests, and waiting for what they show."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.types import Snapshot
from modularrsi.terminal.tmux import Scope, TmuxTerminal

PLAIN = ["bash", "--noprofile", "--norc", "+H"]
PATIENCE = 30.0

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@asynccontextmanager
async def terminal(
    folder: Path, command: Sequence[str] | Callable[[], Sequence[str]] = PLAIN, **options: Any
) -> AsyncIterator[TmuxTerminal]:
    """A started terminal with the prompt `$ `, stopped at the end."""
    options.setdefault("pane_env", {"PS1": "$ "})
    made = TmuxTerminal(command, folder=folder / "t", name="one", **options)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def seen(
    made: TmuxTerminal, wanted: str | Callable[[Snapshot], bool], scope: Scope = "screen", patience: float = PATIENCE
) -> Snapshot:
    """Read until the text holds `wanted` (or the snapshot satisfies it). Fails when it never does."""
    deadline = time.monotonic() + patience
    while True:
        snapshot = await made.read(scope)
        if wanted in snapshot.text if isinstance(wanted, str) else wanted(snapshot):
            return snapshot
        assert time.monotonic() < deadline, f"never saw {wanted!r} in:\n{snapshot.text[-2000:]}"
        await asyncio.sleep(0.02)


async def idle(made: TmuxTerminal) -> Snapshot:
    """Wait until the shell is at its prompt again."""
    return await seen(made, lambda shot: not shot.busy and shot.text.endswith("$"))


async def written(path: Path, wanted: bytes) -> bytes:
    """The content of a file as soon as it is `wanted`, else what it is in the end."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes() == wanted:
            break
        await asyncio.sleep(0.02)
    return path.read_bytes() if path.exists() else b""


def processes_with(text: str) -> list[int]:
    """Ids of processes whose command line holds `text`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(text) in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
