"""What a worker runs first, inside: it puts up the walls that a process puts up around itself, then runs the program.

This file is not imported: its text is the `-c` of a Python (`cage.python.worker_command`), inside a cage, and the plan
is its argument. It is trusted; whatever comes after it is not, and can take none of these walls down:

* hard limits, which a process without capabilities cannot raise;
* no capability, and none to gain by running a program;
* Landlock, where the plan brings a ruleset: only the files it names can be opened from here on;
* the system-call filter.

Sources: capset(2), prctl(2), landlock(7), seccomp(2). Standard library only; any Python >= 3.11 runs it.
"""

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import resource
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
FILTER_MODE = 2
SIGKILL = 9  # not from `signal`, whose import would cost a hundredth of a worker's start
CAPABILITIES = struct.pack("<Ii", 0x20080522, 0)  # version 3, this process
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def done(what, result):
    """A wall that does not stand ends the worker: there is none without it."""
    if result < 0:
        sys.exit(f"cage: {what} failed: {os.strerror(ctypes.get_errno())}")
    return result


def walls(plan):
    libc = ctypes.CDLL(None, use_errno=True)
    if plan["parent"]:
        done("dying with the engine", libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        if os.getppid() != plan["parent"]:
            sys.exit("cage: the engine has gone")
    done("giving up capabilities", libc.capset(CAPABILITIES, bytes(24)))
    done("no_new_privs", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if plan["landlock"]:
        landlock(libc, bytes.fromhex(plan["landlock"]["ruleset"]), plan["landlock"]["rules"])
    if plan["filter"]:
        program = bytes.fromhex(plan["filter"])
        described = Filter(len(program) // 8, program)
        done("the system-call filter", libc.prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(described), 0, 0))


def landlock(libc, attributes, rules):
    """`rules`: [path, access rights] pairs."""

    def call(number, *words):
        return libc.syscall(ctypes.c_long(number), *(ctypes.c_long(w) if isinstance(w, int) else w for w in words))

    ruleset = done("Landlock", call(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0))
    for path, access in rules:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("<Qi", access, handle)
        done(f"Landlock for {path}", call(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
        os.close(handle)
    done("Landlock", call(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def harness(folder):
    """Import the package `harness` from its folder, without anything that lies beside it."""
    loader = importlib.machinery.SourceFileLoader("harness", f"{folder}/__init__.py")
    spec = importlib.machinery.ModuleSpec("harness", loader, origin=loader.path, is_package=True)
    spec.submodule_search_locations = [folder]
    spec.has_location = True
    package = sys.modules["harness"] = importlib.util.module_from_spec(spec)
    loader.exec_module(package)


def boot(plan):
    os.chdir(plan["folder"])
    for name, value in plan["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if sys.platform == "linux":
        walls(plan)
    harness(plan["harness"])
    del sys.argv[1:]
    os.write(1, plan["ready"].encode())
    exec(compile(plan["program"], "<worker>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    boot(json.loads(sys.argv[1]))
