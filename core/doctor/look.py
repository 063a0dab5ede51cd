"""One look at the processes of a run: what each of them does, and where."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
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
"""The folder of our own code, whose calls are no place in a user's code."""
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")
NEAR = 12
"""Innermost calls that decide what a process waits for."""
AT_DEVICE = (".item(", ".tolist(", ".cpu(", ".numpy(", "synchronize(")
"""Calls that wait for what a device computes: they are of C, so that no stack has them, but the line of the caller."""


class Doing(Enum):
    """What a process does, as far as its stack and its state tell."""

    COLLECTIVE = "collective"
    """It waits in an exchange with the other workers."""
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


SIGNS: tuple[tuple[Doing, str, tuple[str, ...]], ...] = (
    (Doing.COLLECTIVE, "/torch/distributed/", ()),
    (Doing.DATA, "/torch/utils/data/", ()),
    (Doing.BACKWARD, "/torch/autograd/", ("run_backward", "_engine_run_backward")),
    (Doing.GRAPH, "/tensorflow/python/eager/", ()),
    (Doing.GRAPH, "/tensorflow/python/training/server_lib.py", ("join",)),
    (Doing.LOCK, "/threading.py", ("wait", "acquire", "join", "__enter__")),
)
"""What a call tells: a part of its file's path, and its functions; of any function without them."""
NO_CALLS = frozenset({"<module>", "wrapper"})
"""A module that is imported, and what PyTorch puts around each exchange."""
WAITS = frozenset({Doing.COLLECTIVE, Doing.BACKWARD, Doing.GRAPH, Doing.DEVICE})
"""What a worker does that may wait for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One worker at one moment."""

    rank: int
    pid: int
    state: str
    """As in `/proc`: R, S, D, T, ..."""
    doing: Doing
    what: str = ""
    """The exchange: `all_reduce`; the kernel's function; why nothing is known."""
    place: Frame | None = None
    """The innermost call of the user's code; None without any."""
    stack: Stack = ()


def look_at(run: Run) -> list[Look]:
    """Look at each worker of a run that lives on this machine, in the order of the ranks."""
    found: dict[int, ProcessId] = {}
    is_here = run.facts.host is None or run.facts.host == processes.here()
    for worker in run.facts.workers.values() if is_here else ():
        if worker.exit_code is None and not worker.host:
            # A worker has a rank of its own, as a cluster may have given to a launcher: only workers have a local one.
            given = procfs.variable(procfs.variables(worker.process.pid), "LOCAL_RANK")
            is_launcher = run.spec().script is not None and given is None
            found |= (is_launcher and _ranks_below(worker.process)) or {worker.rank: worker.process}
    return [_look(rank, found[rank]) for rank in sorted(found)]


def _ranks_below(process: ProcessId) -> dict[int, ProcessId]:
    """Return the processes that a launcher such as torchrun has started, by the rank in their environment."""
    found: dict[int, ProcessId] = {}
    for child in procfs.children(process.pid):
        rank, one = procfs.variable(procfs.variables(child), "RANK"), processes.identify(child)
        if one is not None and rank is not None and rank.isdecimal():
            found.setdefault(int(rank), one)
        found = {**_ranks_below(one), **found} if one is not None and rank is None else found
    return found


def _look(rank: int, process: ProcessId) -> Look:
    stat = procfs.stat(process.pid)
    state = "" if stat is None or stat.created != process.created else stat.state
    doing, what, stack = Doing.UNKNOWN, "", Stack()
    if not state:
        what = tr("it has ended")
    elif state in procfs.STOPPED:
        doing = Doing.STOPPED
    elif state == "D":
        doing, what = Doing.KERNEL, procfs.waits_in(process.pid)
    else:
        try:
            stack = _stack(process)
            doing, what = doing_of(stack)
            if doing is Doing.DATA:
                stack = _loaders_stack(process) or stack
        except RunError as error:
            what = str(error)
    return Look(rank=rank, pid=process.pid, state=state, doing=doing, what=what, place=place_in(stack), stack=stack)


def _stack(process: ProcessId) -> Stack:
    printed = printed_stack(process)
    return traced_stack(process) if printed is None else printed


def _loaders_stack(process: ProcessId) -> Stack:
    """Return the stack of a process that loads data and is in the user's code; of several, of the first such."""
    for child in procfs.children(process.pid):
        one = processes.identify(child)
        try:
            stack = _stack(one) if one is not None else Stack()
        except RunError:
            continue
        if place_in(stack) is not None and "/torch/utils/data/" in " ".join(each.file for each in stack):
            return stack
    return ()


def doing_of(stack: Sequence[Frame]) -> tuple[Doing, str]:
    """Return what a stack tells, from the innermost call outwards, and the name of an exchange."""
    near = [each for each in stack[:NEAR] if each.function not in NO_CALLS]
    for frame in near:
        for doing, part, functions in SIGNS:
            if part in frame.file and (frame.function in functions or not functions):
                calls = [each.function for each in near if part in each.file]
                return doing, calls[-1] if doing is Doing.COLLECTIVE else ""
    line = linecache.getline(stack[0].file, stack[0].line) if stack else ""
    return (Doing.DEVICE if any(call in line for call in AT_DEVICE) else Doing.CODE), ""


def place_in(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost call of the user's code; None if there is none."""
    for frame in stack:
        if not frame.file.startswith(OURS) and not any(part in frame.file for part in LIBRARIES):
            return frame
    return None
