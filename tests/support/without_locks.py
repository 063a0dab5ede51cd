"""Run a command as on a file system without file locks: flock(2) fails with the given error number.

    python -m tests.support.without_locks ERRNO COMMAND ...

A seccomp filter answers the call; all processes that the command starts inherit it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

FLOCK = {"x86_64": 73, "aarch64": 32}
"""The number of the call by machine, from `asm/unistd.h`."""
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""BPF: load a word, jump if it equals a constant, return a constant; from `linux/bpf_common.h`."""
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000


def fail_flock(number: int) -> None:
    """Let flock(2) fail with this error number, in this process and all that it starts. Raises `OSError`."""
    steps = [
        (LOAD, 0, 0, 0),  # the number of the call
        (JUMP_IF_EQUAL, 0, 1, FLOCK[platform.machine()]),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | number),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    fail_flock(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
