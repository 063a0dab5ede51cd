"""Start a worker. This file is run by its path, under an interpreter that need not have Trainyard installed.

    python boot.py RUN_DIR '{"rank": 0, "world_size": 2, "devices": ["cpu:0"], ...}'
    python boot.py --export '{"run_dir": ..., "checkpoint": ..., ...}'

The second form exports a trained model. Our package is loaded under a private name: a user's own package `core` or
`gui` keeps its name, and our folders `pytorch` and `tensorflow` cannot be mistaken for a framework.

Both forms start the dead-man switch, which ends the process and all its children when the supervisor is gone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import threading
import time

PRIVATE_NAME = "_trainyard"
GUARD_FIRST_S = 0.25
"""Seconds to wait before killing, so that the run's guard can first record which processes are left."""


def _load_privately(folder: str) -> None:
    """Make the package in `folder` importable as `PRIVATE_NAME` and under no other name."""
    spec = importlib.util.spec_from_file_location(
        PRIVATE_NAME,
        os.path.join(folder, "__init__.py"),  # noqa: PTH118 (see main)
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Remove our own folder from the import path, then run the worker or the export."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (`here` leaves the path before pathlib loads)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    _load_privately(os.path.dirname(here))  # noqa: PTH120
    if sys.argv[1] == "--export":
        return int(importlib.import_module(f"{PRIVATE_NAME}.worker.export").main(sys.argv[2]))
    return int(importlib.import_module(f"{PRIVATE_NAME}.worker.main").main(sys.argv[1], sys.argv[2]))


def start_dead_man_switch() -> None:
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
    threading.Thread(target=_kill_at_end, args=(fd,), name="dead-man switch", daemon=True).start()


def _kill_at_end(fd: int) -> None:
    while os.read(fd, 1):
        pass  # the supervisor writes nothing; only the end of file counts
    time.sleep(GUARD_FIRST_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
