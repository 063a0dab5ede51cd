"""The dead-man switch: end this worker and all its children when the supervisor is gone."""

from __future__ import annotations

import os
import signal
import threading
import time

GUARD_FIRST_S = 0.25
"""Seconds to wait before killing, so that the run's guard can first record which processes are left."""


def start() -> None:
    """Watch stdin, whose other end only the supervisor holds. At end of file kill this process group.

    The whole group is killed because forked data-loader workers notice a dead parent only after seconds. The signal is
    KILL because no supervisor is left to check a slower exit. Linux' `PR_SET_PDEATHSIG` would fire when the *thread*
    that created the worker ends, and children do not inherit it.
    """
    fd = os.dup(0)
    # A recipe may read stdin, and its children inherit it: give them an empty one.
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    threading.Thread(target=_wait, args=(fd,), name="dead-man switch", daemon=True).start()


def _wait(fd: int) -> None:
    while os.read(fd, 1):
        pass  # the supervisor writes nothing; only the end of file counts
    time.sleep(GUARD_FIRST_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)
