"""End the runs of a check and remove its folder when it ends, however it ends.

    PYTHON -m core.check.keeper FOLDER

The supervisors of runs outlive the process that started them, as they should; those of a check must not.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from core.errors import RunError
from core.runs.facts import state_info
from core.runs.run import Run
from core.system.helper_process import HelperProcess
from core.system.own_processes import KEEPER, own_command

END_S = 60.0
"""Seconds to wait for the end of the runs."""
POLL_S = 0.1
PROBES = ".probes"
"""The folder, in that of the runs, of short runs that measure memory (`core.fit`)."""


def keep(folder: Path, stack: ExitStack) -> Path:
    """Have another process end the runs in a folder and remove it, when the stack closes or this process has ended."""
    stack.callback(end_runs, folder)  # at last, if its keeper was killed
    keeper = HelperProcess(own_command(KEEPER, str(folder)), stdin=True)
    stack.callback(end_runs, folder)  # where the keeper was killed
    stack.callback(keeper.close)
    stack.callback(keeper.wait, 2 * END_S)
    stack.callback(keeper.end_input)
    return folder


def end_runs(folder: Path) -> None:
    """Stop all runs in a folder, wait until their memory is back, and remove the folder with all that is in it."""
    left = [Run.attach(file.parent) for file in folder.glob("*/spec.json")]
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline and folder.exists():
        for run in left:
            run.poll()
        left = [run for run in left if not state_info(run.facts.state).over]
        for run in left:
            with contextlib.suppress(RunError):
                run.request("force" if state_info(run.facts.state).can_force else "stop")
        if not left:  # again if a process that ends has written to it meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        time.sleep(POLL_S)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.name == PROBES:
        with contextlib.suppress(OSError):  # others measure
            folder.parent.rmdir()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_runs(Path(sys.argv[1]))
