"""The private root of a bubblewrap sandbox: what the agent finds at `/`, and the bwrap arguments that mount it.

An allow-list, not a copy of the host: `/usr` and a few tables under `/etc` are shown read-only, all else (`/app`,
`/root`, `/tmp`, `/home`, `/opt`, `/var`, `/usr/local` and any folder the task makes) is a private writable folder. The
host's `/home`, `/root`, `/run`, `/sys`, sockets and environment do not exist inside.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from modularrsi.sandbox.dockerfile import BASE_PATH as PATH

LAYOUT = "1"
"""Counts up when the skeleton changes: built environments of an older layout are then built anew."""

_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SHOWN = ("/etc/alternatives", "/etc/fonts", "/etc/ssl/certs")
"""Hundreds of links each: mounted. What is small is copied, since a mount costs half a millisecond at every start."""

_COPIED_FOLDERS = ("java-17-openjdk", "java-21-openjdk", "ld.so.conf.d", "perl", "terminfo")
_COPIED = (
    "debian_version",
    "ethertypes",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "rpc",
    "services",
    "ssl/openssl.cnf",
    "timezone",
)
_FOLDERS = {
    "app": 0o755,
    "etc/profile.d": 0o755,
    "home": 0o755,
    "logs/agent": 0o777,
    "logs/artifacts": 0o777,
    "logs/verifier": 0o777,
    "media": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "root": 0o700,
    "run/lock": 0o1777,
    "srv": 0o755,
    "tests": 0o755,
    "tmp": 0o1777,
    "usr/local/bin": 0o755,
    "usr/local/etc": 0o755,
    "usr/local/include": 0o755,
    "usr/local/lib": 0o755,
    "usr/local/sbin": 0o755,
    "usr/local/share": 0o755,
    "usr/local/src": 0o755,
    "var/cache": 0o755,
    "var/lib": 0o755,
    "var/log": 0o755,
    "var/mail": 0o755,
    "var/spool": 0o755,
    "var/tmp": 0o1777,
}
_LINKS = {
    "var/run": "/run",
    "var/lock": "/run/lock",
    "etc/mtab": "/proc/mounts",
    "usr/local/man": "share/man",
}
_PASSWD = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = """\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
mail:x:8:
www-data:x:33:
shadow:x:42:
utmp:x:43:
staff:x:50:
users:x:100:
nogroup:x:65534:
"""
_PROFILE = f"""\
if [ "$(id -u)" = 0 ]; then PATH={PATH}; else PATH=/usr/local/bin:/usr/bin:/bin; fi
export PATH
[ -n "$BASH_VERSION" ] && [ -n "$PS1" ] && . /etc/bash.bashrc
for script in /etc/profile.d/*.sh; do
  [ -r "$script" ] && . "$script"
done
unset script
"""
_BASHRC = """\
[ -z "$PS1" ] && return
shopt -s checkwinsize
PS1='\\u@\\h:\\w\\$ '
"""
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"


@dataclass(frozen=True, slots=True)
class Ids:
    """How ids inside map to the host's. `base` None: only root exists, and it is the user who runs the engine."""

    base: int | None

    @property
    def root(self) -> int:
        return os.geteuid() if self.base is None else self.base

    @property
    def group(self) -> int:
        return os.getegid() if self.base is None else self.base


SHOWN_ROOT = "/tmp/root"
"""Where the helper mounts the private root for bwrap, in a mount namespace of its own, when ids are mapped."""

BASE_ID = 1_297_219_584
"""Host ids of a sandbox's users 0–65535 when root runs the engine: a range no distribution hands out by default."""


def ids_for_this_user(uid_map: Path = Path("/proc/self/uid_map")) -> Ids:
    """Root maps a whole range, so that users, chown and setuid are real inside and root inside is nobody outside.

    Root of a container that itself has few ids only (rootless Docker, Podman) is treated as an ordinary user.
    """
    if os.geteuid() != 0:
        return Ids(None)
    try:
        extents = [tuple(map(int, line.split())) for line in uid_map.read_text().splitlines()]
    except OSError:
        return Ids(None)
    reachable = any(first <= BASE_ID and first + count >= BASE_ID + 65_536 for first, _, count in extents)
    return Ids(BASE_ID if reachable else None)


def make_root(root: Path, ids: Ids) -> None:
    """Lay out an empty private root in the (existing, empty) folder `root`."""
    for name in ("usr", "proc", "dev", "etc", *(shown.lstrip("/") for shown in _shown())):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, mode in _FOLDERS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    for name, target in {**_LINKS, **_system_links()}.items():
        (root / name).symlink_to(target)
    for name, text in _tables().items():
        (root / "etc" / name).write_text(text)
    for name in _COPIED_FOLDERS:
        if Path("/etc", name).is_dir():
            shutil.copytree(Path("/etc", name), root / "etc" / name, symlinks=True, ignore=_unreadable)
    for name in _COPIED:
        _copy_table(Path("/etc") / name, root / "etc" / name)
    root.chmod(0o755)
    hand_over(root, ids)


def _system_links() -> dict[str, str]:
    """`/bin` → `usr/bin` and so on, where the host is merged that way; else they are mounted (`mount_arguments`)."""
    return {name: str(Path("/", name).readlink()) for name in _SYSTEM_LINKS if Path("/", name).is_symlink()}


def _tables() -> dict[str, str]:
    return {
        "bash.bashrc": _BASHRC,
        "group": _GROUP,
        "nsswitch.conf": _NSSWITCH,
        "passwd": _PASSWD,
        "profile": _PROFILE,
        "shells": "/bin/sh\n/bin/bash\n",
    }


def _unreadable(folder: str, names: list[str]) -> list[str]:
    """Passwords and keys among the host's settings: not for an ordinary user to copy, nor for the sandbox to see."""
    modes = {name: Path(folder, name).lstat().st_mode for name in names}
    return [name for name, mode in modes.items() if not mode & stat.S_IROTH]


def _copy_table(source: Path, target: Path) -> None:
    if source.is_file() and os.access(source, os.R_OK):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def name_host(root: Path, ids: Ids, hostname: str, network: bool) -> None:
    """The parts of `/etc` that differ from one sandbox to the next. The folder must not have run anything yet."""
    if (root / "etc").is_symlink():
        return  # a built environment has put a link there: writing through it would write on the host
    resolver = Path("/etc/resolv.conf")
    texts = {
        "hostname": hostname + "\n",
        "hosts": f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {hostname}\n",
        "resolv.conf": resolver.read_text() if network and resolver.is_file() else "",
    }
    for name, text in texts.items():
        path = root / "etc" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        _give(path, ids)


def shows_folder(layers: Sequence[Path], path: str) -> bool:
    """Whether an overlay of these layers surely has a folder there; False = it has to be asked for inside."""
    for layer in layers:
        place, found = layer, True
        for part in PurePosixPath(path).parts[1:]:
            place /= part
            if not os.path.lexists(place):
                found = False
                break
            if place.is_symlink() or not place.is_dir() or "trusted.overlay.opaque" in os.listxattr(place):
                return False
        if found:
            return True
    return False


def make_upper(root: Path, environment: Path, ids: Ids) -> None:
    """An empty private root to lay over `environment`: of its folders only `/` and `/etc`, for `name_host`."""
    for name in (".", "etc"):
        model = environment / name
        if model.is_dir() and not model.is_symlink():
            (root / name).mkdir(exist_ok=True)
            (root / name).chmod(stat.S_IMODE(model.stat().st_mode))
            _give(root / name, ids)


def _give(path: Path, ids: Ids) -> None:
    if ids.base is not None:
        os.chown(path, ids.root, ids.group, follow_symlinks=False)


def hand_over(root: Path, ids: Ids) -> None:
    """Give the whole tree to the sandbox's root."""
    if ids.base is None:
        return
    _give(root, ids)
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            _give(Path(folder, name), ids)


def _shown() -> list[str]:
    return [path for path in _SHOWN if Path(path).is_dir() and not Path(path).is_symlink()]


def mount_arguments(root: str) -> list[str]:
    """bwrap's mounts, over the private root at `root`."""
    arguments = ["--bind", root, "/", "--ro-bind", "/usr", "/usr", "--bind", f"{root}/usr/local", "/usr/local"]
    for name in _SYSTEM_LINKS:
        if Path("/", name).is_dir() and not Path("/", name).is_symlink():
            arguments += ["--ro-bind", f"/{name}", f"/{name}"]
    for path in _shown():
        arguments += ["--ro-bind", path, path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    # The kernel lets its own root write settings by ownership alone, without any capability: where root inside is
    # that root (a user namespace that maps it to itself), only a read-only mount keeps the host's settings safe.
    for path in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"):
        arguments += ["--ro-bind-try", path, path]
    return arguments


def bwrap_arguments(bwrap: str, mounts: list[str], ids: Ids, network: bool, hostname: str) -> list[str]:
    """The whole command. The first process waits for its standard input to close: the sandbox lives as long as that.

    It is bash because bash, as process 1, reaps what was orphaned; it ignores every signal but those it cannot.
    """
    user = [] if ids.base is not None else ["--unshare-user", "--uid", "0", "--gid", "0"]
    spaces = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", hostname]
    first = "trap '' HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP; printf r; exec >/dev/null 2>&1; read -r _"
    return [
        bwrap,
        *user,
        *spaces,
        *([] if network else ["--unshare-net"]),
        *mounts,
        *("--cap-drop", "ALL", "--die-with-parent", "--as-pid-1", "--clearenv", "--setenv", "PATH", PATH),
        *("--chdir", "/", "--", "/bin/bash", "--norc", "--noprofile", "-c", first),
    ]


def default_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment commands start with; nothing of the engine's."""
    return {"PATH": PATH, "LANG": "C.UTF-8", "TERM": "xterm-256color", **extra}
