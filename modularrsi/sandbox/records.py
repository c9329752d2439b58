"""What a sandbox without a daemon leaves on disk about itself, so that a killed engine's remains can be removed.

One JSON file beside the sandbox's private root, written before the first resource exists: who owns it, its labels, its
control group and its processes. Only a record whose owner is gone is ever acted upon.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from modularrsi.cgroups import Cgroup
from modularrsi.errors import SandboxError
from modularrsi.processes import Process, identify, is_alive, kill_all, marked, send, wait_gone

FOLDER = "sandbox"
_FILE = "record.json"
_KILL_SEC = 5.0


def own_process() -> Process:
    return identify(os.getpid()) or Process(os.getpid(), 0)


@dataclass(frozen=True, slots=True)
class Record:
    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    owner: Process = field(default_factory=own_process)
    group: Cgroup | None = None
    processes: tuple[Process, ...] = ()
    mark: str = ""
    """`NAME=value` in the environment of every process of a sandbox that has no namespace to end them by."""

    def write(self, folder: Path) -> None:
        """Replace the record in `folder` as a whole: a reader sees the old one or the new one."""
        data = asdict(self)
        if self.group is not None:
            data["group"] = {"version": self.group.version, "folders": [str(path) for path in self.group.folders]}
        temporary = folder / (_FILE + ".new")
        temporary.write_text(json.dumps(data))
        temporary.replace(folder / _FILE)


def read_record(folder: Path) -> Record | None:
    """The record in `folder`; None when there is none that can be read."""
    try:
        data: dict[str, Any] = json.loads((folder / _FILE).read_text())
        group = data["group"]
        return Record(
            kind=data["kind"],
            name=data["name"],
            labels=data["labels"],
            owner=Process(**data["owner"]),
            group=group and Cgroup(group["version"], tuple(Path(path) for path in group["folders"])),
            processes=tuple(Process(**process) for process in data["processes"]),
            mark=data["mark"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def reap(folder: Path, labels: Mapping[str, str] | None = None) -> list[str]:
    """Remove what dead engines left below `folder` (itself a scratch folder, or one or two levels above some).

    Returns the names of the sandboxes removed. Those of a living engine, and those whose labels do not hold all of
    `labels`, are left alone. Raises SandboxError (stop_failed) when something resists.
    """
    removed: list[str] = []
    for place in _places(folder):
        record = read_record(place)
        if record is None or is_alive(record.owner) or not (labels or {}).items() <= record.labels.items():
            continue
        _end(record)
        remove_tree(place)
        removed.append(record.name)
    return removed


def _places(folder: Path) -> Iterator[Path]:
    for pattern in (FOLDER, f"*/{FOLDER}", f"*/*/{FOLDER}", f"*/.*/{FOLDER}"):
        for place in sorted(folder.glob(pattern)):
            if (place / _FILE).is_file():
                yield place


def _end(record: Record) -> None:
    for process in record.processes:
        with contextlib.suppress(PermissionError):
            send(process, signal.SIGKILL)
    left = wait_gone(record.processes, _KILL_SEC)
    if record.mark:
        left += kill_all(lambda: marked(record.mark.encode()), _KILL_SEC)
    if left or (record.group is not None and not record.group.destroy(_KILL_SEC)):
        raise SandboxError(f"sandbox {record.name}: what a killed engine left does not end", "stop_failed")


def remove_tree(folder: Path) -> None:
    """Remove a folder that an agent filled: unreadable folders and paths of any depth. Raises SandboxError."""
    try:
        shutil.rmtree(folder)
        return
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        pass  # modes that shut us out, or a tree deeper than Python recurses: the tools below know both
    remove = ["rm", "-rf", "--", str(folder)]
    for argv in (remove, ["chmod", "-R", "u+rwX", "--", str(folder)], remove):
        if not folder.exists():
            return
        subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    if folder.exists():
        raise SandboxError(f"{folder} cannot be removed", "stop_failed")
