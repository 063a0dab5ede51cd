"""The layout of a run directory: the name of every file and folder in it.

    spec.json                   what was asked for, written once
    queue.json                  what was asked of the queue; only for a run that was queued
    name.json                   the name that the user gave the run later; only then
    marks.jsonl                 star, tags, notes and archiving: a line each, append-only; only if there are any
    workload.py                 the text of the recipe or script as it was at the start
    rules.json                  the rules for its output that the user gave a script's run later; only then
    events/supervisor.jsonl     life-cycle, written by the supervisor; before there is one, by the queue
    events/worker-N.jsonl       measurements of rank N of a recipe
    events/settings.jsonl       settings that were changed while it trained; only then
    events/collector.jsonl      measurements of a script, written by the metrics process
    events/devices.jsonl        readings of the devices
    events/guard.jsonl          what the guard had to terminate
    events/host-NAME.jsonl      devices, readings and findings of another machine that trains along
    events/notifications.jsonl  what could not be told the user; only then
    events/doctor.jsonl         what examinations of the run have found; only then
    events/reserve              space that is released when the disk is full
    lock, events/lock           empty; locked by the supervisor, the second one also by its guard
    log.txt, log.N.txt          output of rank 0 and of the supervisor; output of rank N of a script
    metrics.jsonl, metrics.N.jsonl   measurements that a script itself appends
    control/                    requests: one file each; set.json and trace.json say what is asked for
    checkpoints/                one folder each
    outputs/                    files that functions of a recipe have written; exists only then
    doctor/                     the last examinations of the run, whole; exists only then
    rendezvous                  where ranks meet; exists only while they run
    pymp-*                      sockets of data-loader workers; exist only while they run
    part.json                   which ranks of a run of another machine train here; only for such a part
    kept                        empty; locked while the other machine follows the part
    recipe/                     the recipe of a part, as the other machine has sent it

Beside the run directories, in the folder of runs:

    NAME.scaling.json           a scaling table: what was asked for, and the runs that were made for it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SPEC_FILE = "spec.json"
NAME_FILE = "name.json"
QUEUE_FILE = "queue.json"
RULES_FILE = "rules.json"
MARKS_FILE = "marks.jsonl"
WORKLOAD_FILE = "workload.py"

EVENTS = "events"
"""The folder of the event files."""
SUPERVISOR_EVENTS = "supervisor.jsonl"
COLLECTOR_EVENTS = "collector.jsonl"
DEVICE_EVENTS = "devices.jsonl"
SETTING_EVENTS = "settings.jsonl"
GUARD_EVENTS = "guard.jsonl"
NOTIFICATION_EVENTS = "notifications.jsonl"
DOCTOR_EVENTS = "doctor.jsonl"
EVENTS_SUFFIX = ".jsonl"
RESERVE = "reserve"
"""A file in the events folder. It is deleted when the disk is full, so that the last events fit."""

STACKS = "trainyard-stacks"
"""The name of the file in memory to which a worker prints its stacks on the signal SIGRTMAX (`core.doctor.stacks`)."""
PART_FILE = "part.json"
KEPT_FILE = "kept"
HOLDER_FILE = "holder.json"
"""Which agent holds a part."""
PART_RECIPE = "recipe"
"""The folder of the recipe of a part."""

LOCK = "lock"
"""An empty file in the run directory and in the events folder: see `core.runs.lock`."""

CONTROL = "control"
"""The folder of requests to the run."""
SET, TRACE = "set.json", "trace.json"
"""The requests for other settings and for a trace, which have a content."""
TAKEN = ".taken"
"""Follows the name of such a request while the workers answer it."""
CHECKPOINTS = "checkpoints"
DOCTOR = "doctor"
OUTPUTS = "outputs"
"""The folder of files that functions of a recipe have written: pictures, samples, logs of Keras' callbacks."""
RENDEZVOUS = "rendezvous"
SOCKETS = "pymp-*"
"""A pattern: folders that Python's multiprocessing makes for sockets."""

SCALING_SUFFIX = ".scaling.json"
"""How the names of the files of scaling tables end; they are in the folder of runs."""

LOG_FILE = "log.txt"
RANK_LOGS = "log.*.txt"
"""A pattern: the output files of ranks above 0 of a script."""
METRICS_VARIABLE = "TRAINYARD_METRICS"
"""The environment variable that names the file to which a script may append measurements, one JSON object per line."""


def worker_events(rank: int) -> str:
    """Return the name of the event file of a rank, inside the events folder."""
    return f"worker-{rank}{EVENTS_SUFFIX}"


def host_events(name: str) -> str:
    """Return the name of the event file of a host that trains along, inside the events folder."""
    return f"host-{name}{EVENTS_SUFFIX}"


def log_of_rank(run_dir: Path, rank: int) -> Path:
    """Return the output file of a rank of a script. Rank 0 shares the run's own log with the supervisor."""
    return run_dir / (f"log.{rank}.txt" if rank else LOG_FILE)


def metrics_file(run_dir: Path, rank: int) -> Path:
    """Return the file to which a rank of a script may append its measurements."""
    return run_dir / (f"metrics.{rank}.jsonl" if rank else "metrics.jsonl")
