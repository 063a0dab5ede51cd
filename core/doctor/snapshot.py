"""A snapshot of a worker: what it does at one moment, and where."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from core.doctor.stacks import Frame, Stack, printed_stack, traced_stack
from core.errors import RunError
from core.language import tr
from core.runs.run import Run
from core.system import processes, procfs
from core.system.processes import ProcessId

OURS = str(Path(__file__).parents[2])
"""The folder of our own code."""
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")
NEAR = 12
"""Innermost calls that decide what a process waits for."""
AT_DEVICE = (".item(", ".tolist(", ".cpu(", ".numpy(", "synchronize(")
"""Calls that wait for a device. They are written in C: not the stack has them, but the line of the innermost frame."""


class Activity(Enum):
    """What a process does, as far as its stack and its state tell."""

    COLLECTIVE = "collective"
    """It waits for the other workers in a collective operation, such as an all-reduce."""
    BACKWARD = "backward"
    GRAPH = "graph"
    """A step that TensorFlow computes."""
    DEVICE = "device"
    """It waits for what it has given its device to compute."""
    DATA = "data"
    LOCK = "lock"
    CODE = "code"
    """It is in a line of Python."""
    STOPPED = "stopped"
    KERNEL = "kernel"
    """It waits in the kernel and cannot be interrupted, as for a disk or a driver."""
    UNKNOWN = "unknown"


SIGNS: tuple[tuple[Activity, str, tuple[str, ...]], ...] = (
    (Activity.COLLECTIVE, "/torch/distributed/", ()),
    (Activity.DATA, "/torch/utils/data/", ()),
    (Activity.BACKWARD, "/torch/autograd/", ("run_backward", "_engine_run_backward")),
    (Activity.GRAPH, "/tensorflow/python/eager/", ()),
    (Activity.GRAPH, "/tensorflow/python/training/server_lib.py", ("join",)),
    (Activity.LOCK, "/threading.py", ("wait", "acquire", "join", "__enter__")),
)
"""Calls by which an activity is recognised: a part of the file's path, and functions in it; all without functions."""
NO_CALLS = frozenset({"<module>", "wrapper"})
"""Frames that are skipped: modules that are imported, and PyTorch's wrapper around each collective operation."""
WAITS = frozenset({Activity.COLLECTIVE, Activity.BACKWARD, Activity.GRAPH, Activity.DEVICE})
"""Activities in which a worker may be waiting for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One worker at one moment."""

    rank: int
    pid: int
    state: str
    """As in `/proc`: R, S, D, T, ..."""
    activity: Activity
    what: str = ""
    """The collective operation, such as `all_reduce`; the kernel's function; or why nothing is known."""
    place: Frame | None = None
    """As `place_in` returns it."""
    stack: Stack = ()


def snapshots_of(run: Run) -> list[Snapshot]:
    """Return a snapshot of each worker that lives on this machine, in the order of the ranks."""
    found: dict[int, ProcessId] = {}
    is_here = run.facts.host is None or run.facts.host == processes.here()
    for worker in run.facts.workers.values() if is_here else ():
        if worker.exit_code is None and not worker.host:
            # Only workers have LOCAL_RANK. A launcher may have RANK, which clusters set.
            given = procfs.variable(procfs.variables(worker.process.pid), "LOCAL_RANK")
            is_launcher = run.spec().script is not None and given is None
            found |= (is_launcher and _ranks_below(worker.process)) or {worker.rank: worker.process}
    with ThreadPoolExecutor(max(len(found), 1)) as pool:  # a silent process must not delay the others
        return list(pool.map(lambda rank: _snapshot(rank, found[rank]), sorted(found)))


def _ranks_below(process: ProcessId) -> dict[int, ProcessId]:
    """Return the processes that a launcher such as torchrun has started, by the rank in their environment."""
    found: dict[int, ProcessId] = {}
    for child in procfs.children(process.pid):
        rank, one = procfs.variable(procfs.variables(child), "RANK"), processes.identify(child)
        if one is None:
            continue
        below = _ranks_below(one) if rank is None else {int(rank): one} if rank.isdecimal() else {}
        found = below | found
    return found


def _snapshot(rank: int, process: ProcessId) -> Snapshot:
    stat = procfs.stat(process.pid)
    state = "" if stat is None or stat.created != process.created else stat.state
    activity, what, stack = Activity.UNKNOWN, "", Stack()
    if not state:
        what = tr("it has ended")
    elif state in procfs.STOPPED:
        activity = Activity.STOPPED
    elif state == "D":
        activity, what = Activity.KERNEL, procfs.waits_in(process.pid) or "D"
    else:
        try:
            stack = _stack(process)
            activity, what = activity_of(stack)
            if activity is Activity.DATA:
                stack = _loaders_stack(process) or stack
        except RunError as error:
            what = str(error)
    return Snapshot(rank=rank, pid=process.pid, state=state, activity=activity, what=what, place=place_in(stack),
                    stack=stack)


def _stack(process: ProcessId) -> Stack:
    printed = printed_stack(process)
    return traced_stack(process) if printed is None else printed


def _loaders_stack(process: ProcessId) -> Stack:
    """Return the stack of the first data-loader process that is in the user's code; an empty one if there is none."""
    for child in procfs.children(process.pid):
        one = processes.identify(child)
        try:
            stack = _stack(one) if one is not None else Stack()
        except RunError:
            continue
        place, files = place_in(stack), " ".join(each.file for each in stack)
        if place is not None and OURS not in place.file and "/torch/utils/data/" in files:
            return stack
    return ()


def activity_of(stack: Sequence[Frame]) -> tuple[Activity, str]:
    """Return what a stack shows, and the name of the collective operation. The innermost known call decides.

    What the user's code calls decides, and not what has called it, except for data.
    """
    near, is_called = [each for each in stack[:NEAR] if each.function not in NO_CALLS], True
    for frame in near:
        for activity, part, functions in SIGNS:
            is_known = part in frame.file and (frame.function in functions or not functions)
            if is_known and (is_called or activity is Activity.DATA):
                calls = [each.function for each in near if part in each.file]
                return activity, calls[-1] if activity is Activity.COLLECTIVE else ""
        is_called &= any(part in frame.file for part in (OURS, *LIBRARIES))
    line = linecache.getline(stack[0].file, stack[0].line) if stack else ""
    return (Activity.DEVICE if any(call in line for call in AT_DEVICE) else Activity.CODE), ""


def place_in(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost call of the user's code; without any, of ours, as of a step that TensorFlow computes."""
    calls = [frame for frame in stack if not any(part in frame.file for part in LIBRARIES)]
    return next((frame for frame in calls if OURS not in frame.file), calls[0] if calls else None)
