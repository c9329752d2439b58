"""Which files a Python needs to start: the read-only part of every cage.

The interpreter that runs the engine also runs the worker, without its site-packages: `harness` needs only the standard
library, so nothing that a user installed can be reached from inside.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import harness
from modularrsi.cage.base import CageLimits
from modularrsi.cage.seccomp import worker_filter

HARNESS_INSIDE = "/cage/lib/harness"
LIBRARY_INSIDE = "/cage/library"

# The dynamic loader and the C library; a distribution's own Python also lives below /usr.
_SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64")

# -I: no PYTHON* variables, no user site, no current folder on sys.path; -S: no site-packages; -B: write no bytecode.
FLAGS = ("-I", "-S", "-B")


# Set inside, by trusted code, before any library is read: hard limits that a process without capabilities cannot raise,
# and a system-call filter that cannot be taken off. (22 = PR_SET_SECCOMP, 38 = PR_SET_NO_NEW_PRIVS, 2 = filter mode.)
_BOOT = """
import resource, sys
for name, value in zip(sys.argv[2::2], sys.argv[3::2]):
    resource.setrlimit(getattr(resource, name), (int(value), int(value)))
if sys.argv[1]:
    import ctypes
    program = bytes.fromhex(sys.argv[1])
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((38, 1, 0, 0, 0), (22, 2, ctypes.byref(Filter(len(program) // 8, program)), 0, 0)):
        if libc.prctl(*call):
            sys.exit(f"no system-call filter: errno {ctypes.get_errno()}")
    del sys.modules["ctypes"]
del sys.argv[1:]
sys.path.insert(0, "/cage/lib")
from harness.worker import main
sys.exit(main())
"""


def worker_command(limits: CageLimits) -> list[str]:
    """The command that starts a worker inside a cage whose files are those of `readonly_files`."""
    pairs = {
        "RLIMIT_AS": 4 * limits.memory_bytes,  # address space, not memory: a floor under the cgroup's own limit
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": limits.pids,
        "RLIMIT_CORE": 0,
    }
    words = [word for name, value in pairs.items() for word in (name, str(value))]
    return [str(_interpreter()), *FLAGS, "-c", _BOOT, (worker_filter() or b"").hex(), *words]


def readonly_files(library: Path) -> list[tuple[Path, str]]:
    """(host, inside) pairs: system libraries, the interpreter, its standard library, `harness`, and one library."""
    return [*_python_files(), (Path(harness.__file__).parent, HARNESS_INSIDE), (library, LIBRARY_INSIDE)]


@lru_cache(maxsize=1)
def _python_files() -> tuple[tuple[Path, str], ...]:
    system = [Path(name) for name in _SYSTEM if Path(name).exists()]
    own = [path for path in _interpreter_files() if not any(path.is_relative_to(s) for s in system)]
    return tuple((path, str(path)) for path in [*system, *own])


def _interpreter() -> Path:
    return Path(os.path.realpath(sys.executable))


def _interpreter_files() -> Iterator[Path]:
    """Of the interpreter behind a virtual environment, never the environment itself."""
    yield _interpreter()
    yield Path(os.__file__).resolve().parent
    libraries = sysconfig.get_config_var("LIBDIR")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and libraries:
        yield Path(libraries)
