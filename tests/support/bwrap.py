"""A small bubblewrap shell for terminal tests: the host read-only, one writable folder, no network, own processes."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

PROMPT = "$ "


@functools.cache
def _why_not() -> str:
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    tried = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-net", "true"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    return f"bubblewrap does not work here: {tried.stderr.strip()}" if tried.returncode else ""


def bwrap_shell(work: Path) -> list[str]:
    """The argv of a login shell whose home and working folder is `work`; skips the test where bwrap cannot run."""
    if _why_not():
        pytest.skip(_why_not())
    (work / ".bash_profile").write_text(f"PS1={PROMPT!r}\nPATH=/usr/local/bin:/usr/bin:/bin\n")
    return [
        "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
        "--bind", str(work), str(work), "--chdir", str(work), "--setenv", "HOME", str(work),
        "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", "sandbox",
        "--die-with-parent", "bash", "--login", "+H",
    ]  # fmt: skip
