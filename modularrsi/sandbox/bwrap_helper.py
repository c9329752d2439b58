"""The process that stands between the engine and one bubblewrap sandbox. Run by path, never imported by the engine.

    python -I -S bwrap_helper.py FD      fork one server for each socket that arrives on the socket FD

A server starts bwrap and then joins the sandbox's namespaces itself. It stays outside the sandbox's pid namespace
(setns(2): only children enter one), so nothing inside can see, signal or trace it; its children are born inside,
give up their rights, and only then become the command. That makes an exec one fork instead of one bwrap, and file
operations run under the sandbox's own root: a planted symlink resolves inside. When the engine dies the socket closes,
and the sandbox dies with it.

Everything is imported before the sandbox is joined, and no program of the sandbox runs before the rights are gone.
Only the standard library and its own parts (`bwrap_inside`, `bwrap_start`), because it runs alone.
"""

# os.path instead of pathlib halves the time this takes to start.
# ruff: noqa: PTH100, PTH103, PTH120

import array
import contextlib
import errno
import json
import os
import select
import signal
import socket
import stat
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from bwrap_inside import PR_SET_CHILD_SUBREAPER, become, enter_groups, join, open_groups, prctl
from bwrap_start import MESSAGE_BYTES, start_bwrap


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
        # A pid namespace ends when its last process is reaped, and the commands are this process's children.
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


if __name__ == "__main__":
    serve_root(socket.socket(fileno=int(sys.argv[1])))
