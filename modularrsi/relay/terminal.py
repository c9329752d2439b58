"""A shell of a container on this terminal, without Docker's own client (`start.relay_command("terminal", plan)`).

The plan: {"engine": "unix://…" | "tcp://host:port", "version": "1.41", "container": id, "user": "", "workdir": "/",
"shell": "bash" | "sh", "state": path}. The shell runs on a tty of the container; this program copies bytes between
the two terminals, passes on the size, and ends with the shell's exit code. `state` gets {"exec", "pid"}: the Engine's
id of the exec, and the shell's pid inside the container.

The Engine leaves an exec running whose client has gone. A forked guard therefore waits for this program's end,
however it comes, and hangs the shell up: SIGHUP for it and for its foreground job, SIGKILL for what is left of it.
"""

# ruff: noqa: PTH105, PTH123

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty

from modularrsi.relay.engine import ANSWER_BYTES, BLOCK, Engine, Failed, write

REFUSED, HUNG_UP = 125, 129
READY, GO = b"\x1emodularrsi-pid ", b"\x1emodularrsi-go"

# The shell waits for a line, so that the terminal has its size before the prompt is drawn.
START = """\
printf '\\036modularrsi-pid %d.' $$; IFS= read -r _; printf '\\036modularrsi-go\\n'
cd -- "$2" || cd /
unset OLDPWD _
if [ "$1" = bash ]; then SHELL=$(command -v bash); export SHELL; exec bash --login +H; fi
exec sh -l
"""
HANG_UP = """\
IFS= read -r line <"/proc/$1/stat" || exit 0
rest=${line##*) }; set -- "$1" $rest
[ "$7" -gt 1 ] && kill -HUP "-$7"
kill -HUP "$1"; kill -CONT "$1"; sleep 1; kill -KILL "$1"
"""


class Shell:
    """The exec of one shell. `pid` is its process inside the container, 0 until that is known."""

    def __init__(self, plan: dict) -> None:
        self.engine = Engine(plan["engine"], plan["version"])
        self.container, self.user = plan["container"], plan["user"]
        env = [f"TERM={os.environ.get('TERM') or 'xterm-256color'}"]
        argv = ["sh", "-c", START, "sh", plan["shell"], plan["workdir"]]
        self.id = self.create(argv, self.user, env, tty=True)
        self.pid, self.guard = 0, -1

    def create(self, argv: list[str], user: str, env: list[str], *, tty: bool) -> str:
        body = {"Cmd": argv, "User": user, "Env": env, "WorkingDir": "/", "Tty": tty,
                "AttachStdin": tty, "AttachStdout": tty, "AttachStderr": tty}  # fmt: skip
        return self.engine.ask("POST", f"/containers/{self.container}/exec", body)["Id"]

    def start(self) -> tuple[socket.socket, bytes]:
        """Attach, learn the pid, set the size, let the shell go: its stream, and the first bytes of its output."""
        stream, seen = self.engine.attach(f"/exec/{self.id}/start", {"Detach": False, "Tty": True})
        seen = self.until(stream, seen, READY)
        while b"." not in seen:
            seen += self.more(stream, seen)
        pid, _, seen = seen.partition(b".")
        self.pid = int(pid)
        self.guard = guard(self, stream)
        self.resize()
        stream.sendall(b"\n")
        seen = self.until(stream, seen, GO)
        while b"\n" not in seen:
            seen += self.more(stream, seen)
        stream.settimeout(None)
        return stream, seen.partition(b"\n")[2]

    def until(self, stream: socket.socket, seen: bytes, word: bytes) -> bytes:
        while word not in seen:
            seen += self.more(stream, seen)
        return seen.partition(word)[2]

    @staticmethod
    def more(stream: socket.socket, seen: bytes) -> bytes:
        part = stream.recv(BLOCK) if len(seen) < ANSWER_BYTES else b""
        if not part:
            said = seen.decode("utf-8", "replace").strip()[-500:]
            raise Failed(f"the container starts no shell: {said or 'it has stopped'}")
        return part

    def resize(self) -> None:
        """Give the container's terminal the size of this one. A shell that has just ended needs none."""
        rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
        if rows and columns:
            with contextlib.suppress(Failed, OSError, ValueError):
                self.engine.ask("POST", f"/exec/{self.id}/resize?h={rows}&w={columns}")

    def hang_up(self) -> None:
        with contextlib.suppress(Failed, OSError, ValueError, KeyError):
            helper = self.create(["sh", "-c", HANG_UP, "sh", str(self.pid)], "0", [], tty=False)
            self.engine.ask("POST", f"/exec/{helper}/start", {"Detach": True, "Tty": False})

    def exit_code(self) -> int | None:
        """None while it runs, or when the Engine does not say."""
        with contextlib.suppress(Failed, OSError, ValueError):
            state = self.engine.ask("GET", f"/exec/{self.id}/json")
            return None if state.get("Running") else state.get("ExitCode")
        return None


def guard(shell: Shell, stream: socket.socket) -> int:
    """Fork a process that outlives this one; a byte written to the returned pipe says that the shell has ended."""
    out, into = os.pipe()
    if os.fork():
        os.close(out)
        return into
    try:
        os.close(into)
        stream.close()
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGWINCH):
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        if os.read(out, 1) == b"":
            shell.hang_up()
    finally:
        os._exit(0)


def copy(stream: socket.socket, first: bytes, resized: int, shell: Shell) -> None:
    """Copy both ways until the shell's stream ends or this terminal hangs up.

    Never waits for the container to take input: it may itself be waiting for its output to be taken.
    """
    write(1, first)
    stream.setblocking(False)
    waiting = bytearray()
    while True:
        readable = [stream, resized] + ([0] if len(waiting) < BLOCK else [])
        ready, writable, _ = select.select(readable, [stream] if waiting else [], [])
        if resized in ready:
            os.read(resized, BLOCK)
            shell.resize()
        if stream in ready:
            data = stream.recv(BLOCK)
            if not data:
                return
            write(1, data)
        if 0 in ready:
            data = os.read(0, BLOCK)
            if not data:
                return
            waiting += data
        if stream in writable:
            del waiting[: stream.send(waiting)]


def save(path: str, state: dict) -> None:
    """Atomically, for a reader that may look at any time."""
    if path:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(path + ".new", path)


def run(plan: dict) -> int:
    shell = Shell(plan)
    stream, first = shell.start()
    save(plan["state"], {"exec": shell.id, "pid": shell.pid})
    resized, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    with stream:
        copy(stream, first, resized, shell)
        code = shell.exit_code()
    if code is None:
        return HUNG_UP
    os.write(shell.guard, b".")
    return code


def main() -> int:
    try:
        before = termios.tcgetattr(0)
    except termios.error:
        print("terminal relay: there is no terminal on standard input", file=sys.stderr)
        return REFUSED
    tty.setraw(0, termios.TCSANOW)  # the default would throw away what has been typed already
    try:
        return run(json.loads(sys.argv[1]))
    except (Failed, OSError, KeyError, ValueError) as error:
        print(f"{error}\r", file=sys.stderr)
        return REFUSED
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)

