"""The run's guard: a process that only waits for the supervisor to end, and then ends whatever is left of the run.

Each worker has a dead-man switch of its own (`core.worker.deadman`), but that is a thread of the
worker: it cannot act while the worker is stopped, or while user code holds the interpreter's lock,
and it does not reach children that began a session of their own. The guard finds them by the tag.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from core import processes

LOOK_AGAIN_S = 0.05
QUIET_S = 1.0
"""A process may fork while it is being looked for: it is over when nothing was found for so long."""


def post(run_id: str, *, let_go: int) -> int:
    """Fork the guard; returns the descriptor whose closing, at the latest with this process's end, sets it off.

    `let_go`: a descriptor that the guard must not keep, the run's lock. Call it before any thread is started.
    """
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    try:
        os.close(writing)
        os.close(let_go)
        os.setsid()  # a signal to the supervisor's group, such as a shutdown's, is not for the guard
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if not os.read(reading, 1):
            _end_all(run_id)
    finally:
        os._exit(0)


def dismiss(post: int) -> None:
    """Let the guard go: nothing is left of the run."""
    with contextlib.suppress(BrokenPipeError):
        os.write(post, b".")
    os.close(post)


def _end_all(run_id: str) -> None:
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < QUIET_S:
        if processes.end_tagged(run_id, signal.SIGKILL):
            quiet_since = time.monotonic()
        time.sleep(LOOK_AGAIN_S)
