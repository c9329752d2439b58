"""Which folder a run lives in: a new one, or the unfinished one of the same contract."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from modularrsi.errors import StoreError, UserError
from modularrsi.runs.contract import Contract
from modularrsi.runs.request import RunRequest
from modularrsi.runs.state import RunState, reduce
from modularrsi.store import RunReader

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Opened:
    name: str
    folder: Path
    sentence: str


def open_run(request: RunRequest, contract: Contract) -> Opened:
    """The run to work on.

    A named run goes on if its contract is the same, whatever its state. Without a name, the latest unfinished run of
    the same contract goes on, so that the same command after an interruption never starts over by accident.
    """
    if request.name is not None:
        return _named(request, contract)
    if request.retry_unscored:
        raise UserError("--retry unscored needs --run NAME: which run's rollouts are to run again")
    unfinished = None if request.new else _unfinished(request.runs_dir, contract.digest)
    if unfinished is not None:
        folder, done, planned = unfinished
        sentence = f"going on with {folder} ({done} of {planned} rollouts done; --new starts over)"
        return Opened(folder.name, folder, sentence)
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{contract.digest[:6]}"
    folder = _free(request.runs_dir, name)
    return Opened(folder.name, folder, f"run: {folder}")


def _named(request: RunRequest, contract: Contract) -> Opened:
    name = request.name or ""
    if not _NAME.fullmatch(name):
        raise UserError(f"--run {name!r} is no name for a folder: use letters, digits, dots, dashes (at most 100)")
    folder = request.runs_dir / name
    state = read_state(folder)
    if state is None or not state.planned:
        if request.retry_unscored:
            raise UserError(f"--retry unscored: there is no run {folder} yet")
        return Opened(name, folder, f"run: {folder}")
    if request.new:
        raise UserError(f"--new: the run {folder} exists; choose another --run")
    if state.contract_digest != contract.digest:
        raise UserError(f"the run {folder} was started with other settings ({_differences(state, contract)}); "
                        "repeat them, or choose another --run")
    return Opened(name, folder, f"going on with {folder} ({len(state.finished)} of {len(state.planned)} rollouts done)")


def _unfinished(runs: Path, digest: str) -> tuple[Path, int, int] | None:
    if not runs.is_dir():
        return None
    for folder in sorted((f for f in runs.iterdir() if (f / "events.jsonl").is_file()), reverse=True):
        try:
            state = read_state(folder)
        except StoreError:
            continue  # a damaged run is reported by `verify`, and must not keep others from running
        if state and state.contract_digest == digest and not state.complete:
            return folder, len(state.finished), len(state.planned)
    return None


def read_state(folder: Path) -> RunState | None:
    """The state of the run in `folder`, None when there is none. Raises StoreError when its log is damaged."""
    if not (folder / "events.jsonl").is_file():
        return None
    return RunReader(folder).fold(reduce, RunState())


def _free(runs: Path, name: str) -> Path:
    folder, number = runs / name, 2
    while folder.exists():
        folder, number = runs / f"{name}-{number}", number + 1
    return folder


def _differences(state: RunState, contract: Contract) -> str:
    now = contract.to_json()
    return ", ".join(sorted(name for name in now if now[name] != state.contract.get(name))) or "an older format"
