"""Joining a sandbox's namespaces, and giving up rights before anything of the sandbox runs.

The part of the helper that both its server and its terminal need. Only the standard library: it runs alone.
"""

# Runs alone, by path: see bwrap_helper.py. os.path instead of pathlib halves the time it takes to start.
# ruff: noqa: PTH115, PTH123

import contextlib
import ctypes
import os
import resource

LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
CLONE_NEWUSER = 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
NAMESPACES = {
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "mnt": 0x20000,
}
"""What is joined after the user namespace, in this order; what is the host's own (a shared network) is left alone."""

# Docker's default set without those that need a device, the audit log or raw packets (capabilities(7)).
KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10, 18})
LAST_CAPABILITY = 63


def checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    checked(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def setns(handle: int, kinds: int) -> None:
    checked(LIBC.setns(handle, kinds), "setns")


def join(pid: int, forbid_userns: bool) -> None:
    """Move this process into the namespaces of `pid` (the next child is born in its pid namespace)."""
    prctl(PR_SET_DUMPABLE, 0)
    handles = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("user", *NAMESPACES)}
    names = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in handles}
    if os.readlink("/proc/self/ns/user") != names["user"]:
        setns(handles["user"], CLONE_NEWUSER)
        become_root()
    if forbid_userns:
        forbid_user_namespaces()
    # The mount namespace comes last: its /proc is the sandbox's, in which this process does not exist.
    for name, kind in NAMESPACES.items():
        if os.readlink(f"/proc/self/ns/{name}") != names[name]:
            setns(handles[name], kind)
    for handle in handles.values():
        os.close(handle)
    prctl(PR_SET_DUMPABLE, 0)  # changing ids and namespaces has reset it
    os.chdir("/")
    os.umask(0o022)


def become_root() -> None:
    with contextlib.suppress(PermissionError):  # one mapped id only: there are no groups to give up
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def forbid_user_namespaces() -> None:
    """No namespace inside the namespace: it would give a process all rights again, over less."""
    with open("/proc/sys/user/max_user_namespaces", "w") as file:  # the table of the namespace we are in
        file.write("0")


def open_groups(entry_files: list) -> list:
    return [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in entry_files]


def enter_groups(handles: list) -> None:
    for handle in handles:
        os.write(handle, b"0")


def become(request: dict) -> dict:
    """Limits, rights and user of a command; returns its environment. Raises OSError, KeyError for an unknown user."""
    for name, value in request["rlimits"].items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    uid, gid, groups, home = find_user(request["user"])
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            LIBC.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)  # unknown numbers fail: as they should
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if uid or gid:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        prctl(PR_SET_DUMPABLE, 0)
    return {"HOME": home, **request["env"]}


def find_user(user: "str | int | None") -> tuple:
    """(uid, gid, groups, home) by the sandbox's own /etc/passwd and /etc/group; KeyError when it is not there."""
    if user in (None, 0, "0", "root"):
        return 0, 0, [0], "/root"
    wanted = str(user)
    for fields in table("/etc/passwd", 7):
        if wanted in (fields[0], fields[2]):
            groups = [int(g[2]) for g in table("/etc/group", 4) if fields[0] in g[3].split(",")]
            return int(fields[2]), int(fields[3]), [int(fields[3]), *groups], fields[5] or "/"
    if wanted.isdigit():
        return int(wanted), int(wanted), [int(wanted)], "/"
    raise KeyError(wanted)


def table(path: str, width: int) -> list:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(":") for line in file]
    except OSError:
        return []
    return [row for row in rows if len(row) == width]
