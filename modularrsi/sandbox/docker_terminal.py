"""What runs in the foreground of the terminal's shell, as cheaply as the Engine's place allows."""

from __future__ import annotations

import json
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.processes import read_stat
from modularrsi.sandbox.docker_exec import Execs
from modularrsi.sandbox.docker_wire import EngineAddress, ask

_PROBE_SEC = 5.0
_STAT = 'IFS= read -r line <"/proc/$1/stat" && printf "%s" "${line##*) }"'


async def foreground(address: EngineAddress, execs: Execs, state: Path) -> bool | None:
    """Whether the foreground group of the terminal is another than the shell's (proc(5): `pgrp`, `tpgid`).

    `state` is what the relay wrote. On the Engine's own host one look at `/proc` answers; elsewhere an exec does.
    None when there is no shell.
    """
    try:
        known = json.loads(state.read_text())
        exec_id, pid = str(known["exec"]), int(known["pid"])
        seen = await ask(address, "GET", f"/exec/{exec_id}/json", None, _PROBE_SEC)
        if not seen["Running"]:
            return None
        groups = _on_host(int(seen["Pid"]), pid) or await _inside(execs, pid)
    except (OSError, ValueError, KeyError, SandboxError):
        return None
    return None if groups is None or groups[1] <= 0 else groups[0] != groups[1]


def _on_host(host_pid: int, pid: int) -> tuple[int, int] | None:
    """(pgrp, tpgid) of a process of this host that is `pid` in its own namespace; None when it is none of ours."""
    try:
        status = Path(f"/proc/{host_pid}/status").read_text()
    except OSError:
        return None
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    stat = read_stat(host_pid)
    if stat is None or len(numbers) < 2 or numbers[-1] != str(pid):
        return None
    return stat.pgrp, stat.tpgid


async def _inside(execs: Execs, pid: int) -> tuple[int, int] | None:
    fields = (await execs.script(_STAT, str(pid), timeout_sec=_PROBE_SEC)).split()
    return (int(fields[2]), int(fields[5])) if len(fields) > 5 else None
