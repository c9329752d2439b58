"""What a run must not leave behind, seen from the outside: processes, tmux servers, control groups, folders."""

from __future__ import annotations

import json
import os
import subprocess
from fnmatch import fnmatch
from pathlib import Path

from modularrsi.digest import digest_text


def processes(mark: str) -> list[str]:
    """Command lines of living processes that name `mark` in their arguments or environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if state != "Z" and (mark.encode() in words or mark.encode() in environment):
            found.append(words.replace(b"\0", b" ").decode("utf-8", "replace")[:300])
    return found


def control_groups(runs: Path) -> list[str]:
    """Control groups of the runs below `runs`: workers' and sandboxes'."""
    root = Path("/sys/fs/cgroup")
    if not root.is_dir():
        return []
    marks = []
    for log in runs.glob("*/events.jsonl"):
        key = str(log.parent.resolve())
        planned = json.loads(log.read_bytes().splitlines()[0])["data"]["rollouts"]
        marks += [f"mrsi-worker-{digest_text(key)[:12]}-*"]
        marks += [f"modularrsi-mrsi-{digest_text(f'{key}{chr(0)}{name}')[:16]}-*" for name in planned]
    # Not rglob: groups of other runs come and go while it walks.
    names = ((folder, name) for folder, names, _ in os.walk(root) for name in names)
    return sorted(f"{folder}/{name}" for folder, name in names if any(fnmatch(name, mark) for mark in marks))


def containers(label: str) -> list[str]:
    """Ids of containers, running or not, that carry `label`; empty where there is no Engine."""
    done = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label={label}"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.split()
