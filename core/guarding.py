"""The run's guard (`core.guard`), as its supervisor sees it: forked before all else, let go at the end."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def post(run_dir: Path, *, let_go: int) -> int:
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
        from core import guard  # here: the supervisor need not wait until it is loaded

        guard.stand(run_dir, reading)
    finally:
        os._exit(0)


def dismiss(post: int) -> None:
    """Let the guard go: nothing is left of the run."""
    with contextlib.suppress(BrokenPipeError):
        os.write(post, b".")
    os.close(post)


def set_off(post: int) -> None:
    """Let the guard do what this process could not: something is left of the run."""
    os.close(post)
