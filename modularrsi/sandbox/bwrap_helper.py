"""The process that stands between the engine and one bubblewrap sandbox. Run by path, never imported by the engine.

    python -I -S bwrap_helper.py root FD      fork one server for each socket that arrives on the socket FD
    python -I -S bwrap_helper.py enter FILE   be the sandbox's terminal, on this tty

A server starts bwrap and then joins the sandbox's namespaces itself. It stays outside the sandbox's pid namespace
(setns(2): only children enter one), so nothing inside can see, signal or trace it; its children are born inside,
give up their rights, and only then become the command. That makes an exec one fork instead of one bwrap, and file
operations run under the sandbox's own root: a planted symlink resolves inside. When the engine dies the socket closes,
and the sandbox dies with it.

Everything is imported before the sandbox is joined, and no program of the sandbox runs before the rights are gone.
Only the standard library, because this file runs alone.
"""

# ruff: noqa: PTH (pathlib would double the time this file takes to start)

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import termios

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
MESSAGE_BYTES = 65_536


def checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    checked(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def setns(handle: int, kinds: int) -> None:
    checked(LIBC.setns(handle, kinds), "setns")


# ---------------------------------------------------------------------------------------------------- start the sandbox


def start_bwrap(plan: dict) -> tuple[int, int, int]:
    """Start bwrap; returns (its pid, the pid of the sandbox's first process, the pipe whose closing ends it)."""
    life_out, life_in = os.pipe()
    ready_out, ready_in = os.pipe()
    info_out, info_in = os.pipe()
    errors = os.memfd_create("bwrap-errors")
    groups = open_groups(plan["entry_files"])  # now: what counts for entering is who opened them
    argv = [plan["argv"][0], "--info-fd", str(info_in), *plan["argv"][1:]]
    pid = fork_mapped(plan["base_id"], plan["root"], plan["shown_root"], errors)
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


def fork_mapped(base_id: "int | None", root: str, shown_root: str, errors: int) -> int:
    """Fork; with `base_id` the child is root of a new user namespace whose ids 0–65535 are host ids from there on."""
    if base_id is None:
        return os.fork()
    unshared_out, unshared_in = os.pipe()
    mapped_out, mapped_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        for handle in (unshared_out, mapped_in):
            os.close(handle)
        become_mapped(root, shown_root, unshared_in, mapped_out, errors)
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


def become_mapped(root: str, shown_root: str, unshared: int, mapped: int, errors: int) -> None:
    try:
        show_root(root, shown_root)
        checked(LIBC.unshare(CLONE_NEWUSER), "unshare")
        os.write(unshared, b"u")
        if os.read(mapped, 1) != b"m":
            raise OSError(errno.EPERM, "the user ids could not be mapped")
        become_root()
    except OSError as error:
        os.write(errors, str(error).encode())
        os._exit(1)


def show_root(root: str, shown_root: str) -> None:
    """Mount the private root, in a mount namespace of our own, at a path that needs no right to be walked.

    The folder may lie below one that only the host's root can enter, and the sandbox's root is another user.
    """
    checked(LIBC.unshare(NAMESPACES["mnt"]), "unshare")
    source = os.open(root, os.O_PATH | os.O_DIRECTORY)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("sandbox", os.path.dirname(shown_root), "tmpfs", 0)
    os.chmod(os.path.dirname(shown_root), 0o755)
    os.mkdir(shown_root)
    mount(f"/proc/self/fd/{source}", shown_root, None, MS_BIND)
    os.close(source)


def mount(source: str, target: str, kind: "str | None", flags: int) -> None:
    name = None if kind is None else kind.encode()
    checked(LIBC.mount(source.encode(), target.encode(), name, ctypes.c_ulong(flags), None), f"mount {target}")


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


# ------------------------------------------------------------------------------------------ what a child does to itself


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


def run_command(request: dict) -> None:
    """Become the command; returns only by ending. Exit codes 126 and 127 as a shell gives them."""
    environment = become(request)
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # kept over execve: what double-forks stays below this process while it lives
    failed = 126
    try:
        os.chdir(request["cwd"])
        failed = 127
        os.execve(request["argv"][0], request["argv"], environment)
    except OSError as error:
        os.write(2, f"{request['cwd'] if failed == 126 else request['argv'][0]}: {error.strerror}\n".encode())
        os._exit(failed)


# ----------------------------------------------------------------------------------------------------- file operations


def read_file(request: dict) -> None:
    become(request)
    handle = open_regular(request["path"], os.O_RDONLY)
    left = request["max_bytes"]
    while left > 0 and (chunk := os.read(handle, min(left, 1 << 20))):
        left -= len(chunk)
        write_all(1, chunk)


def write_file(request: dict) -> None:
    become(request)
    path = request["path"]
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if request["append"] else 0)
    handle = open_regular(path, flags)
    if not request["append"]:
        os.ftruncate(handle, 0)
    while chunk := os.read(0, 1 << 20):
        write_all(handle, chunk)
    if request["mode"] is not None:
        os.fchmod(handle, request["mode"])


def open_regular(path: str, flags: int) -> int:
    """Open without hanging on a pipe and without touching a device."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file", path)
    return handle


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


OPERATIONS = {"exec": run_command, "read": read_file, "write": write_file}


# ---------------------------------------------------------------------------------------------------------- the server


class Child:
    """A request's process. `trouble` is a pipe that is closed by execve: what comes out of it went wrong before."""

    def __init__(self, pid: int, request: int, trouble: int) -> None:
        self.pid, self.request, self.trouble = pid, request, trouble


class Server:
    def __init__(self, channel: socket.socket, groups: list, bwrap: int) -> None:
        self.channel = channel
        self.groups = groups
        self.bwrap = bwrap
        self.poll = select.poll()
        self.poll.register(channel, select.POLLIN)
        self.children: dict = {}

    def watch_bwrap(self, handle: int) -> None:
        self.children[handle] = Child(self.bwrap, 0, -1)
        self.poll.register(handle, select.POLLIN)

    def run(self) -> None:
        """Serve until the engine closes the socket or the sandbox dies."""
        while True:
            for handle, _ in self.poll.poll():
                if handle == self.channel.fileno():
                    if not self.receive():
                        return
                elif self.children[handle].pid == self.bwrap:
                    return
                else:
                    self.finished(handle)

    def receive(self) -> bool:
        message, ancillary, _, _ = self.channel.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(16 * 4))
        if not message:
            return False
        handles = received_handles(ancillary)
        request = read_request(handles[0])
        self.start(request, handles[1:])
        for handle in handles:
            os.close(handle)
        return True

    def start(self, request: dict, streams: list) -> None:
        trouble_out, trouble_in = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for handle in (trouble_out, trouble_in):
                os.close(handle)
            self.reply({"id": request["id"], "status": -1, "trouble": f"fork: {error.strerror}"})
            return
        if pid == 0:
            self.child(request, streams, trouble_in)
        os.close(trouble_in)
        handle = os.pidfd_open(pid)
        self.children[handle] = Child(pid, request["id"], trouble_out)
        self.poll.register(handle, select.POLLIN)
        self.reply({"id": request["id"], "pid": pid})

    def child(self, request: dict, streams: list, trouble: int) -> None:
        """In the sandbox's pid namespace from here on; ends without returning."""
        try:
            enter_groups(self.groups)
            os.setsid()
            for target, handle in zip((0, 1, 2), streams, strict=True):
                os.dup2(handle, target)
            for signum in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
                signal.signal(signum, signal.SIG_DFL)
            OPERATIONS[request["op"]](request)
            os._exit(0)
        except KeyError as error:
            os.write(trouble, f"user {error.args[0]} does not exist".encode())
        except (OSError, ValueError) as error:
            os.write(trouble, f"{getattr(error, 'strerror', None) or error}".encode())
        finally:
            os._exit(1)

    def finished(self, handle: int) -> None:
        child = self.children.pop(handle)
        self.poll.unregister(handle)
        _, status = os.waitpid(child.pid, 0)
        trouble = os.read(child.trouble, 4096).decode("utf-8", "replace")
        os.close(handle)
        os.close(child.trouble)
        self.reply({"id": child.request, "status": os.waitstatus_to_exitcode(status), "trouble": trouble})

    def reply(self, message: dict) -> None:
        self.channel.send(json.dumps(message).encode())


def received_handles(ancillary: list) -> list:
    handles = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            handles.frombytes(data[: len(data) - len(data) % handles.itemsize])
    for handle in handles:
        os.set_inheritable(handle, False)
    return list(handles)


def read_request(handle: int) -> dict:
    size = os.fstat(handle).st_size
    data = b""
    while len(data) < size:
        data += os.pread(handle, size - len(data), len(data))
    return json.loads(data)


def serve_root(channel: socket.socket) -> None:
    """One fork for each sandbox instead of one interpreter; ends when the engine closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, ancillary, _, _ = channel.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(16 * 4))
        if not message:
            return
        (handle,) = received_handles(ancillary)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.close()
            os.setsid()
            serve(socket.socket(fileno=handle))
            os._exit(0)
        os.close(handle)


def serve(channel: socket.socket) -> None:
    message, ancillary, _, _ = channel.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(16 * 4))
    if not message:
        return
    plan = read_request(received_handles(ancillary)[0])
    try:
        bwrap, first, life = start_bwrap(plan)
        bwrap_handle = os.pidfd_open(bwrap)
        groups = open_groups(plan["entry_files"])
        join(first, forbid_userns=True)
    except (OSError, RuntimeError, ValueError) as error:
        channel.send(json.dumps({"error": str(error)}).encode())
        return
    server = Server(channel, groups, bwrap)
    server.watch_bwrap(bwrap_handle)
    server.reply({"ready": True, "helper": os.getpid(), "bwrap": bwrap, "first": first})
    try:
        server.run()
    finally:
        os.close(life)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(bwrap_handle, signal.SIGKILL)
        # The sandbox's pid namespace ends when its last process is reaped, and the commands are this process's children.
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


# -------------------------------------------------------------------------------------------------------- the terminal


def start_ticks(pid: int, folder: int) -> int:
    handle = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=folder)
    raw = os.read(handle, 4096)
    os.close(handle)
    return int(raw[raw.rindex(b")") + 2 :].split()[19])


def enter(plan: dict) -> int:
    """Run the sandbox's shell on this tty; returns its exit code."""
    proc = os.open("/proc", os.O_PATH)
    if start_ticks(plan["first"], proc) != plan["first_start"]:
        raise RuntimeError("the sandbox is gone")
    record = os.open(plan["record"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    groups = open_groups(plan["entry_files"])
    join(plan["first"], forbid_userns=False)
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    go_out, go_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_in)
        os.read(go_out, 1)
        terminal_child(plan, groups)
    os.close(go_out)
    if os.isatty(0):
        with contextlib.suppress(OSError):  # not our controlling terminal: then the shell takes it directly
            fcntl.ioctl(0, termios.TIOCNOTTY)
    os.write(record, json.dumps({"pid": pid, "start": start_ticks(pid, proc)}).encode())
    os.close(record)
    os.close(go_in)
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)  # the shell alone holds the terminal: when it ends, the terminal ends
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def terminal_child(plan: dict, groups: list) -> None:
    try:
        enter_groups(groups)
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for signum in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(signum, signal.SIG_DFL)
        environment = become(plan)
        prctl(PR_SET_PDEATHSIG, signal.SIGHUP)
        with contextlib.suppress(OSError):
            os.chdir(plan["cwd"])
        os.execve(plan["argv"][0], plan["argv"], environment)
    except (OSError, KeyError) as error:
        os.write(2, f"terminal: {error}\n".encode())
    finally:
        os._exit(126)


def main() -> int:
    mode, argument = sys.argv[1:3]
    if mode == "root":
        serve_root(socket.socket(fileno=int(argument)))
        return 0
    with open(argument, encoding="utf-8") as file:
        return enter(json.load(file))


if __name__ == "__main__":
    sys.exit(main())
