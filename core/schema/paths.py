"""The layout of a run directory: the name of every file and folder in it.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


METRICS_VARIABLE = "TRAINYARD_METRICS"
"""The variable that names a file to which the program may append its measurements, a JSON object a line."""


def metrics_file(run_dir: Path, rank: int) -> Path:
    """Where a rank may append its measurements."""
    return run_dir / (f"metrics.{rank}.jsonl" if rank else "metrics.jsonl")


SPEC_FILE = "spec.json"


EVENTS = "events"  # the folder of the logs inside a run directory
RESERVE = "reserve"  # a file inside it, given up when the disk is full, so that the last words fit


CHECKPOINTS = "checkpoints"


SUPERVISOR_EVENTS = "supervisor.jsonl"


SOCKETS = "pymp-*"


LOG_FILE = "log.txt"


def log_of_rank(run_dir: Path, rank: int) -> Path:
    """Where a rank of a script prints to; rank 0 into the run's own log, like the supervisor."""
    return run_dir / (f"log.{rank}.txt" if rank else LOG_FILE)


COLLECTOR_EVENTS = "collector.jsonl"


GUARD_EVENTS = "guard.jsonl"
