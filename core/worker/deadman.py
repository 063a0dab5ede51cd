"""The dead-man switch: when the supervisor is gone, so is the worker with all that it started."""

from __future__ import annotations

import os
import signal
import threading
import time

GUARD_FIRST_S = 0.25
"""The run's guard notices the same at the same moment: it is given so long to see whom there is to name."""


def hold() -> None:
    """Watch stdin, whose other end only the supervisor holds; at its end kill this process group.

    The group, because forked data-loader workers notice a dead parent only after seconds. KILL,
    because nobody is left who could judge a slower exit. Linux' `PR_SET_PDEATHSIG` would fire when
    the *thread* that created the worker ends, and is not inherited by children.
    """
    fd = os.dup(0)
    # A recipe may read stdin, and its children inherit it: they get an empty one of their own.
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    threading.Thread(target=_wait, args=(fd,), name="dead-man switch", daemon=True).start()


def _wait(fd: int) -> None:
    while os.read(fd, 1):
        pass  # the supervisor writes nothing; whatever came, only the end counts
    time.sleep(GUARD_FIRST_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)
