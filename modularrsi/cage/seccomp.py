"""A system-call filter for workers: no new process, no program, no socket, no namespace, no tracing, no kernel surface.

It is a second wall inside whatever cage there is, and the strongest part of the weakest one. A worker that has started
needs files, memory, clocks and its three streams; what it may not do is answered EPERM, so that Python raises
PermissionError where the call stands and the trajectory shows it.

The filter is made by the engine for the worker's architecture and installed by the worker's boot code before any
library is read (a seccomp filter cannot be taken off). Source of the format: Linux seccomp(2), BPF of <linux/filter.h>;
of the numbers: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import platform
import struct
import sys

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Numbers of the syscall tables of x86_64 and aarch64 (asm-generic). None: the architecture has no such call.
_FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "quotactl": (179, 60), "fanotify_init": (300, 262), "personality": (135, 92), "iopl": (172, None),
    "ioperm": (173, None), "mq_open": (240, 180), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190),
}

# Besides, where the worker has no process, IPC and mount namespace of its own: what reaches other processes (signals,
# priorities, shared segments), and what changes or watches a file by its path without opening it, which Landlock does
# not see (landlock(7), "Limitations").
_FORBIDDEN_BESIDE_OTHERS: dict[str, tuple[int | None, int | None]] = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "ioprio_set": (251, 30), "setpgid": (109, 154), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "get_robust_list": (274, 100),
    "shmat": (30, 196), "shmctl": (31, 195), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_unlink": (241, 181),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "truncate": (76, 45), "creat": (85, None), "mknod": (133, None), "mknodat": (259, 33),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "syslog": (103, 116), "quotactl_fd": (443, 443), "statmount": (457, 457), "listmount": (458, 458),
}

# Calls that are allowed or not by an argument.
_CLONE = {"x86_64": 56, "aarch64": 220}
_PRCTL = {"x86_64": 157, "aarch64": 167}
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
_OPENAT = {"x86_64": 257, "aarch64": 56}
_OPEN = {"x86_64": 2}
_OPENAT2, _CLONE3 = 437, 435
_CLONE_THREAD = 0x00010000
_TRUNCATE = 0o1000
_NAMING = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA: the C library names threads and memory

_FIRST_UNKNOWN = 463
"""Calls from this number on (Linux 6.13 and later) are newer than the tables above: the worker has none of them."""

_LD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000

_Step = tuple[int, int, int, int]
_DENY: _Step = (_RET, 0, 0, _ERRNO | _EPERM)
_UNKNOWN: _Step = (_RET, 0, 0, _ERRNO | _ENOSYS)
_PASS: _Step = (_RET, 0, 0, _ALLOW)
_END: _Step = (_RET, 0, 0, _KILL)


def worker_filter(
    machine: str | None = None, beside_others: bool = False, truncation: bool = True
) -> bytes | None:
    """The BPF program as the array that prctl takes (8 bytes an instruction), or None on an architecture whose table
    is not known here: then there is no filter, and the cage's `isolation` line must say so.

    `machine`: as `uname -m` says it, default this one. `beside_others`: the worker shares the host's processes and
    file system. `truncation`: False also forbids to open a file for emptying it, which a Landlock before ABI 3 allows
    to whoever may read the file.
    """
    if machine is None:
        machine = platform.machine() if sys.platform == "linux" else ""
    if machine not in _AUDIT_ARCH:
        return None
    column = list(_AUDIT_ARCH).index(machine)
    table = _FORBIDDEN | _FORBIDDEN_BESIDE_OTHERS if beside_others else _FORBIDDEN
    forbidden = sorted({number for numbers in table.values() if (number := numbers[column]) is not None})
    program = [*_entry(machine), *_by_argument(machine, truncation)]
    for number in forbidden:
        program += _call(number, _DENY)
    return b"".join(struct.pack("<HBBI", *step) for step in [*program, _PASS])


def _entry(machine: str) -> list[_Step]:
    """Only this architecture's own table; the number of the call is loaded when this has passed."""
    return [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, _AUDIT_ARCH[machine]),
        _END,
        (_LD, 0, 0, _NR),
        (_JGE, 0, 1, _X32),  # the x32 table of x86_64 would be a way around every number below
        _END,
        (_JGE, 0, 1, _FIRST_UNKNOWN),
        _UNKNOWN,
        # Its flags are behind a pointer: "no such call" makes the C library use clone.
        *_call(_CLONE3, _UNKNOWN),
    ]


def _by_argument(machine: str, truncation: bool) -> list[_Step]:
    """A thread but no process; no end of dying with the engine; no limits of other processes."""
    program = [
        *_call(_CLONE[machine], (_LD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_THREAD), _PASS, _DENY),
        *_call(_PRCTL[machine], (_LD, 0, 0, _ARG0), *(step for o in _NAMING for step in _call(o, _PASS)), _DENY),
        *_call(_PRLIMIT[machine], (_LD, 0, 0, _ARG0), (_JEQ, 0, 1, 0), _PASS, _DENY),
    ]
    if truncation:
        return program
    emptying = ((_JSET, 0, 1, _TRUNCATE), _DENY, _PASS)
    program += [*_call(_OPENAT2, _UNKNOWN), *_call(_OPENAT[machine], (_LD, 0, 0, _ARG2), *emptying)]
    if machine in _OPEN:
        program += _call(_OPEN[machine], (_LD, 0, 0, _ARG1), *emptying)
    return program


def _call(number: int, *steps: _Step) -> list[_Step]:
    """`steps`, which end in a return, for this number. Jump offsets count instructions after the next one."""
    return [(_JEQ, 0, len(steps), number), *steps]
