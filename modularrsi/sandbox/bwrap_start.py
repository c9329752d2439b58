"""The helper's start of bwrap: user ids, the private root, and the wait until the sandbox is ready."""

# Runs alone, by path: see bwrap_helper.py. os.path instead of pathlib halves the time it takes to start.
# ruff: noqa: PTH101, PTH102, PTH120, PTH123

import contextlib
import ctypes
import errno
import json
import os
import select
import signal

from bwrap_inside import (
    CLONE_NEWUSER,
    LIBC,
    NAMESPACES,
    PR_SET_PDEATHSIG,
    become_root,
    checked,
    enter_groups,
    open_groups,
    prctl,
)

MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MESSAGE_BYTES = 65_536


def start_bwrap(plan: dict) -> tuple[int, int, int]:
    """Start bwrap; returns (its pid, the pid of the sandbox's first process, the pipe whose closing ends it)."""
    life_out, life_in = os.pipe()
    ready_out, ready_in = os.pipe()
    info_out, info_in = os.pipe()
    errors = os.memfd_create("bwrap-errors")
    groups = open_groups(plan["entry_files"])  # now: what counts for entering is who opened them
    argv = [plan["argv"][0], "--info-fd", str(info_in), *plan["argv"][1:]]
    pid = fork_mapped(plan, errors)
    if pid == 0:
        exec_bwrap(argv, groups, {0: life_out, 1: ready_in, 2: errors}, info_in)
    for handle in (life_out, ready_in, info_in, *groups):
        os.close(handle)
    if not wait_readable(ready_out, plan["timeout_sec"]) or os.read(ready_out, 1) != b"r":
        fail_start(pid, errors)
    info = json.loads(os.read(info_out, MESSAGE_BYTES))
    for handle in (ready_out, info_out, errors):
        os.close(handle)
    return pid, info["child-pid"], life_in


def fork_mapped(plan: dict, errors: int) -> int:
    """Fork; with `base_id` the child is root of a new user namespace whose ids 0–65535 are host ids from there on."""
    base_id = plan["base_id"]
    if base_id is None:
        return os.fork()
    unshared_out, unshared_in = os.pipe()
    mapped_out, mapped_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        for handle in (unshared_out, mapped_in):
            os.close(handle)
        become_mapped(plan, unshared_in, mapped_out, errors)
        return 0
    for handle in (unshared_in, mapped_out):
        os.close(handle)
    if os.read(unshared_out, 1) == b"u":
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {base_id} 65536\n")
        os.write(mapped_in, b"m")
    for handle in (unshared_out, mapped_in):
        os.close(handle)
    return pid


def become_mapped(plan: dict, unshared: int, mapped: int, errors: int) -> None:
    try:
        show_root(plan["root"], plan["lower"], plan["shown_root"])
        checked(LIBC.unshare(CLONE_NEWUSER), "unshare")
        os.write(unshared, b"u")
        if os.read(mapped, 1) != b"m":
            raise OSError(errno.EPERM, "the user ids could not be mapped")
        become_root()
    except OSError as error:
        os.write(errors, str(error).encode())
        os._exit(1)


def show_root(root: str, lower: list, shown_root: str) -> None:
    """Mount the private root, in a mount namespace of our own, at a path that needs no right to be walked.

    The folder may lie below one that only the host's root can enter, and the sandbox's root is another user. With
    `lower`, layers that are built already, it is an overlay: `root` gets only what the sandbox changes. Nothing is
    flushed to disk for it (`volatile`): it does not outlive the sandbox.
    """
    checked(LIBC.unshare(NAMESPACES["mnt"]), "unshare")
    opened = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (root, *lower)]
    # Through descriptors: names without the commas and colons that the options could not hold.
    upper, *below = [f"/proc/self/fd/{handle}" for handle in opened]
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("sandbox", os.path.dirname(shown_root), "tmpfs", 0)
    os.chmod(os.path.dirname(shown_root), 0o755)
    os.mkdir(shown_root)
    if not lower:
        mount(upper, shown_root, None, MS_BIND)
    else:
        opened.append(os.open(f"{upper}/../work", os.O_PATH | os.O_DIRECTORY))
        options = f"lowerdir={':'.join(below)},upperdir={upper},workdir=/proc/self/fd/{opened[-1]},volatile"
        mount("overlay", shown_root, "overlay", 0, options)
    for handle in opened:
        os.close(handle)


def mount(source: str, target: str, kind: "str | None", flags: int, options: "str | None" = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, options)]
    result = LIBC.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    checked(result, f"mount {kind or target}")


def exec_bwrap(argv: list, groups: list, streams: dict, inherited: int) -> None:
    try:
        enter_groups(groups)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for target, handle in streams.items():
            os.dup2(handle, target)
        os.set_inheritable(inherited, True)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execve(argv[0], argv, {"LANG": "C"})
    except OSError as error:
        os.write(streams[2], f"{argv[0]}: {error}".encode())
    finally:
        os._exit(127)


def fail_start(pid: int, errors: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    text = os.pread(errors, MESSAGE_BYTES, 0).decode("utf-8", "replace").strip()
    raise RuntimeError(text or "bwrap ended before the sandbox was ready")


def wait_readable(handle: int, timeout_sec: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(timeout_sec * 1000))
