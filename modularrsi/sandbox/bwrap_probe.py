"""Does bubblewrap work here? By trying it: the answer depends on the kernel, on AppArmor, and on who asks."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from modularrsi.cgroups import support
from modularrsi.sandbox.base import Availability
from modularrsi.sandbox.bwrap_root import ids_for_this_user

_TRY_SEC = 10.0
_SYSCTL = Path("/proc/sys")
_APPARMOR_FIX = """\
printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }\\n' \
| sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"""


def bubblewrap_availability(bwrap: str | None = None) -> Availability:
    """`bwrap`: the program to try; found on PATH when not given."""
    program = bwrap or shutil.which("bwrap")
    if program is None:
        return _unusable("bubblewrap is not installed", "sudo apt-get install bubblewrap")
    if not Path("/bin/bash").exists():
        return _unusable("/bin/bash is missing", "install bash")
    error = _try(program)
    if error is None:
        return Availability("bubblewrap", True, _version(program), isolation=isolation())
    return _unusable(f"bwrap does not run here: {error}", fix())


def _unusable(detail: str, fix: str) -> Availability:
    return Availability("bubblewrap", False, detail, fix)


def _version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_TRY_SEC, check=False)
    return done.stdout.strip() or program


def _try(program: str) -> str | None:
    """None when a sandbox of our kind starts, else what bwrap said."""
    user = [] if ids_for_this_user().base is not None else ["--unshare-user", "--uid", "0", "--gid", "0"]
    spaces = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    argv = [program, *user, *spaces, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/bash", "-c", ":"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_SEC, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip()[-300:] or f"exit code {done.returncode}"


def fix() -> str:
    """The command that lets an installed bubblewrap work, by what forbids it here."""
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return _APPARMOR_FIX
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting("user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=10000"
    return "use the docker sandbox, or run outside of this container"


def _setting(name: str) -> str | None:
    with contextlib.suppress(OSError):
        return (_SYSCTL / name).read_text().strip()
    return None


def isolation() -> str:
    """One line: what keeps the sandbox apart, and what limits it."""
    users = "mapped users" if ids_for_this_user().base is not None else "one user"
    where = support()
    if where.usable:
        limits = f"control group {where.version} limits ({', '.join(where.controllers)})"
    else:
        limits = f"limits per process and user only ({where.reason})"
    return f"private root; own pid, network, ipc, uts, cgroup and user namespaces; {users}; {limits}"
