"""How a worker's Python is started, and which files of this machine it needs.

In a cage on this machine the interpreter that runs the engine also runs the worker, without its site-packages:
`harness` needs only the standard library, so nothing that a user installed can be reached from inside.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import harness
from modularrsi.cage.base import READY, CageLimits, CageSpec
from modularrsi.cage.seccomp import worker_filter

# -I: no PYTHON* variables, no user site, no current folder on sys.path; -S: no site-packages; -B: write no bytecode.
FLAGS = ("-I", "-S", "-B")

_BOOT = (Path(__file__).parent / "boot.py").read_text(encoding="utf-8")

# The dynamic loader and the C library; a distribution's own Python also lives below /usr.
_SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64")


@dataclass(frozen=True, slots=True)
class Inside:
    """What the boot code finds in one cage. `harness`: the package's folder. `folder`: where the worker stands.

    `seccomp`: the filter, None = this architecture has none. `landlock`: a ruleset and its rules (`cage.landlock`).
    `own_users`: the user's processes outside do not count, so their number can be limited. `parent`: the pid of the
    engine with which the worker dies, 0 = the cage sees to that.
    """

    python: str
    harness: str
    folder: str = "/"
    seccomp: bytes | None = field(default_factory=worker_filter)
    landlock: Mapping[str, Any] | None = None
    own_users: bool = False
    parent: int = 0


def worker_command(spec: CageSpec, inside: Inside) -> list[str]:
    """The command that, run inside, puts up the remaining walls and runs the spec's program."""
    plan = {
        "rlimits": _rlimits(spec.limits, inside.own_users), "filter": (inside.seccomp or b"").hex(),
        "landlock": inside.landlock, "parent": inside.parent, "folder": inside.folder, "harness": inside.harness,
        "ready": READY, "program": spec.program,
    }
    return [inside.python, *FLAGS, "-c", _BOOT, json.dumps(plan)]


def _rlimits(limits: CageLimits, own_users: bool) -> dict[str, int]:
    """RLIMIT_NPROC counts all processes of a user, so it means something only where the worker's user is its own."""
    wanted = {
        "RLIMIT_AS": 4 * limits.memory_bytes,  # address space, not memory: a floor under the cgroup's own limit
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
    }
    return wanted | ({"RLIMIT_NPROC": limits.pids} if own_users else {})


def host_python() -> str:
    """The real file of the interpreter that runs the engine."""
    return str(Path(os.path.realpath(sys.executable)))


def harness_folder() -> Path:
    return Path(os.path.realpath(harness.__file__)).parent


@lru_cache(maxsize=1)
def python_files() -> tuple[Path, ...]:
    """What `host_python` reads: system libraries, itself, its standard library."""
    system = [Path(name) for name in _SYSTEM if Path(name).exists()]
    own = [path for path in _interpreter_files() if not any(path.is_relative_to(s) for s in system)]
    return (*system, *own)


def _interpreter_files() -> Iterator[Path]:
    """Of the interpreter behind a virtual environment, never the environment itself."""
    yield Path(host_python())
    yield Path(os.__file__).resolve().parent
    libraries = sysconfig.get_config_var("LIBDIR")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and libraries:
        yield Path(libraries)
