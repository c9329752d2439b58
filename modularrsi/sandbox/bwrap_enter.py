"""The terminal of a bubblewrap sandbox, on the tty it is started on.

    python -I -S bwrap_enter.py FILE

The shell becomes the leader of a session of its own that this tty controls, so job control and Ctrl-C work; this
process stays outside the sandbox and only waits for it.
"""

# Runs alone, by path: see bwrap_helper.py. os.path instead of pathlib halves the time it takes to start.
# ruff: noqa: PTH100, PTH120, PTH123

import contextlib
import fcntl
import json
import os
import signal
import sys
import termios

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from bwrap_inside import PR_SET_PDEATHSIG, become, enter_groups, join, open_groups, prctl


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


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as plan_file:
        sys.exit(enter(json.load(plan_file)))
