"""The life of the process that reads what a script measures, beside the script; `core.collecting` forks it.

It ends, after it has read all there is, when the supervisor says that the script has ended; or with the supervisor, if
that is killed. `core.sources` knows the ways in which programs tell.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.events import EVENTS, RecordError
from core.launchers.script import metrics_file
from core.sources.found import Finder
from core.writers import Writers

if TYPE_CHECKING:
    from core.spec import RunSpec

LOOK_S = 0.25
NICENESS = 5
"""The training comes first."""


def collect(run_dir: Path, spec: RunSpec, *, until_closed: int, tells: int) -> int:
    """Collect until one pipe is closed; into the other goes a byte when the script may be started."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # a shutdown: the supervisor ends in good order
        signal.signal(number, signal.SIG_IGN)
    finder = _finder(run_dir, spec)
    os.write(tells, b".")
    os.close(tells)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    from core.measuring import Collector  # now: until it is loaded, the script need not wait

    collector = Collector(run_dir, spec, finder)
    try:
        while not select.select([until_closed], [], [], LOOK_S)[0]:
            collector.look()
        collector.look(last=True)
    except RecordError:
        return 1  # the supervisor, whose own records are on the same disk, tells of it
    finally:
        collector.close()
    return 0


def _finder(run_dir: Path, spec: RunSpec) -> Finder:
    """What is in the files by now is not of this run."""
    ours = [run_dir / EVENTS, run_dir / "control", metrics_file(run_dir, 0)]
    writers = Writers(run_dir.name, Path(spec.working_dir))
    finder = Finder([run_dir, Path(spec.working_dir)], since=time.time(), without=ours, is_ours=writers.is_ours)
    finder.remember()
    return finder
