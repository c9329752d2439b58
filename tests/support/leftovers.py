"""What a run must not leave behind, seen from the outside: processes, tmux servers, control groups, folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


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


def control_groups(prefix: str = "mrsi-") -> set[str]:
    """Names of control groups whose name begins with `prefix`."""
    root = Path("/sys/fs/cgroup")
    return {str(path) for path in root.rglob(f"{prefix}*") if path.is_dir()} if root.is_dir() else set()


def containers(label: str) -> list[str]:
    """Ids of containers, running or not, that carry `label`; empty where there is no Engine."""
    done = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label={label}"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.split()
