"""The private tmux server of one rollout: its folder, its configuration, its environment, and its end.

What a pane prints is hostile, so everything is switched off by which output could act on the server, on the user's
clipboard or on names: `set-clipboard`, `allow-passthrough`, `allow-rename`, `set-titles`. The server starts from an
environment that is spelled out here: the engine's own holds keys.

`TERM` is `screen-256color`: tmux understands it, base images know it, and unlike `xterm-256color` or `tmux-256color`
it has no `E3`, so `clear` leaves the history alone. A sandbox whose shell does not inherit the environment must set it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from modularrsi.errors import SandboxError
from modularrsi.sandbox.base import Availability
from modularrsi.terminal.framing import quote

TERM = "screen-256color"
MINIMUM = (3, 2)
_SOCKET = "s"
_CONFIG = "conf"
_PREFIX = "mrsi-"
_MAX_SOCKET_PATH = 100  # sun_path holds 104 bytes on macOS, 108 on Linux (unix(7))
_CONFIGURATION = """\
set -s exit-empty on
set -s exit-unattached on
set -s set-clipboard off
set -s escape-time 0
set -s focus-events off
set -s message-limit 0
set -sq extended-keys off
set -s default-terminal {term}
set -g destroy-unattached on
set -g history-limit {history}
set -g default-size {width}x{height}
set -g default-shell /bin/sh
set -g default-command ""
set -g update-environment ""
set -g status off
set -g mouse off
set -g prefix None
set -g prefix2 None
set -g bell-action none
set -g visual-activity off
set -g set-titles off
set -g assume-paste-time 0
set -gw allow-rename off
set -gw automatic-rename off
set -gw monitor-bell off
set -gw alternate-screen on
set -gw remain-on-exit on
set -gqw remain-on-exit-format ""
set -gqw allow-passthrough off
set -gqw allow-set-title off
set -gqw scroll-on-clear on
unbind -aq -T prefix
unbind -aq -T root
"""


def make_home(folder: Path, name: str) -> Path:
    """A private folder (0700) for one server, found again under `folder/name` by `reap`.

    Where that path is too long for a socket, `folder/name` is a link to a short one.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
        raise SandboxError(f"terminal name {name[:90]!r}: only letters, digits, '.', '_', '-'", "start_failed")
    folder.mkdir(parents=True, exist_ok=True)
    home = folder.resolve() / name
    if home.is_symlink() or home.exists():
        destroy(home)
    if len(os.fsencode(home / _SOCKET)) <= _MAX_SOCKET_PATH:
        home.mkdir(mode=0o700)
        return home
    base = next((base for base in (tempfile.gettempdir(), "/tmp") if len(base) < 60), "/tmp")
    short = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
    home.symlink_to(short)
    return home


def control_argv(home: Path, command: Sequence[str], width: int, height: int, history_lines: int) -> list[str]:
    """Write the configuration and give the argv of the control client that starts server, session and pane."""
    config = home.resolve() / _CONFIG
    config.write_text(_CONFIGURATION.format(term=TERM, history=history_lines, width=width, height=height))
    size = ["-x", str(width), "-y", str(height)]
    return [_tmux(), "-u", "-S", str(socket_of(home)), "-f", str(config), "-C",
            "new-session", "-f", "no-output", *size, "--", *pane_argv(command)]  # fmt: skip


def pane_argv(command: Sequence[str]) -> list[str]:
    """The command without tmux's own variables: a program in the sandbox must not think it could talk to this tmux."""
    hidden = ("TMUX", "TMUX_PANE", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
    return ["env", *(word for name in hidden for word in ("-u", name)), *command]


def respawn_command(pane: str, command: Sequence[str]) -> str:
    return f"respawn-pane -k -t {pane} -- " + " ".join(quote(word) for word in pane_argv(command))


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """What the server and the pane's command start with: enough to find programs, nothing of the engine's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER", "LOGNAME") if name in os.environ}
    return {"LC_ALL": "C.UTF-8", "SHELL": "/bin/bash", **kept, **extra}


def socket_of(home: Path) -> Path:
    return home.resolve() / _SOCKET


def destroy(home: Path, grace: float = 1.5) -> None:
    """End the server of this folder if there is one, and remove the folder. Idempotent; takes a few seconds at most.

    Only a real folder of the caller's own is removed: a link that points elsewhere is just unlinked.
    """
    target = home.resolve()
    if _is_ours(home, target):
        _kill_server(target / _SOCKET, grace)
        shutil.rmtree(target, ignore_errors=True)
    if home.is_symlink():
        home.unlink(missing_ok=True)


def reap(folder: Path) -> list[str]:
    """End all servers whose folders a killed engine left under `folder`; the names of those found."""
    if not folder.is_dir():
        return []
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_symlink() or (entry / _CONFIG).is_file())
    for name in names:
        destroy(folder / name)
    return names


def tmux_availability() -> Availability:
    """Whether this machine has a tmux that will do, for the preflight."""
    fix = "sudo apt-get install tmux   (macOS: brew install tmux)"
    path = shutil.which("tmux")
    if path is None:
        return Availability("tmux", False, "tmux is not installed", fix)
    try:
        said = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Availability("tmux", False, f"{path} does not run: {error}", fix)
    wanted = ".".join(map(str, MINIMUM))
    if not new_enough(said):
        return Availability("tmux", False, f"{said} is too old; {wanted} or newer is needed", fix)
    return Availability("tmux", True, said)


def new_enough(version: str) -> bool:
    """`tmux 3.3a`, `tmux next-3.5`, `tmux openbsd-7.4`, `tmux master`: a build without a number counts as new."""
    match = re.search(r"(\d+)\.(\d+)", version)
    return "openbsd" in version or match is None or (int(match[1]), int(match[2])) >= MINIMUM


def _tmux() -> str:
    path = shutil.which("tmux")
    if path is None:
        raise SandboxError(f"tmux is not installed; {tmux_availability().fix}", "unsupported")
    return path


def _is_ours(home: Path, target: Path) -> bool:
    if not target.is_dir() or target.stat().st_uid != os.getuid():
        return False
    return not home.is_symlink() or target.name.startswith(_PREFIX)


def _kill_server(socket: Path, grace: float) -> None:
    """Ask, wait, then kill by process id: a stopped or wedged server does not listen."""
    if not socket.exists() and not _servers(socket):
        return
    deadline = time.monotonic() + grace
    tmux = shutil.which("tmux")
    if tmux is not None and socket.exists():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # the processes are looked for below
            subprocess.run([tmux, "-S", str(socket), "kill-server"], capture_output=True, timeout=grace, check=False)
    while (left := _servers(socket)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for pid in left:
        _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _servers(socket: Path) -> list[int]:
    """Processes started as `tmux … -S <socket> …` (server and clients keep that command line). Needs /proc."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(words[0])).name == "tmux" and os.fsencode(socket) in words:
            found.append(int(entry.parent.name))
    return found


def describe_command(command: Sequence[str]) -> str:
    return shlex.join(command)[:200]
