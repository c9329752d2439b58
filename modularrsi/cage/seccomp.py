"""A system-call filter for workers: no new process, no program, no socket, no namespace, no tracing, no kernel surface.

It is a second wall inside whatever cage there is, and the strongest part of the weakest one. A worker that has started
needs files, memory, clocks and its three streams; what it may not do is answered EPERM, so that Python raises
PermissionError where the call stands and the trajectory shows it.

The filter is made by the engine for its own architecture and installed by the worker's boot code before any library is
read (a seccomp filter cannot be taken off). Source of the format: Linux seccomp(2), BPF of <linux/filter.h>.
"""

from __future__ import annotations

import platform
import struct

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
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_CLONE_THREAD = 0x00010000

_LD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_NR, _ARCH, _ARG0_LOW = 0, 4, 16
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000


def worker_filter(machine: str | None = None) -> bytes | None:
    """The BPF program as the array that prctl takes (8 bytes an instruction), or None on an architecture whose table
    is not known here: then there is no filter, and the cage's `isolation` line must say so."""
    machine = machine or platform.machine()
    arch = _AUDIT_ARCH.get(machine)
    if arch is None:
        return None
    column = list(_AUDIT_ARCH).index(machine)
    forbidden = sorted({number for numbers in _FORBIDDEN.values() if (number := numbers[column]) is not None})
    return b"".join(struct.pack("<HBBI", *step) for step in _program(arch, _CLONE[machine], forbidden))


def _program(arch: int, clone: int, forbidden: list[int]) -> list[tuple[int, int, int, int]]:
    """Jump offsets count instructions after the next one. Every test ends in a return of its own."""
    deny = (_RET, 0, 0, _ERRNO | _EPERM)
    program = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, arch),
        (_RET, 0, 0, _KILL),
        (_LD, 0, 0, _NR),
        (_JGE, 0, 1, _X32),  # the x32 table of x86_64 would be a way around every number below
        (_RET, 0, 0, _KILL),
        (_JEQ, 0, 1, _CLONE3),  # its flags are behind a pointer: "no such call" makes the C library use clone
        (_RET, 0, 0, _ERRNO | _ENOSYS),
        (_JEQ, 0, 4, clone),  # a thread is allowed, a process is not
        (_LD, 0, 0, _ARG0_LOW),
        (_JSET, 0, 1, _CLONE_THREAD),
        (_RET, 0, 0, _ALLOW),
        deny,
    ]
    for number in forbidden:
        program += [(_JEQ, 0, 1, number), deny]
    return [*program, (_RET, 0, 0, _ALLOW)]
