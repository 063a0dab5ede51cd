"""Short runs that only measure memory. Their folder is removed afterwards, also if their command is killed.

Each batch size is a run of its own, with the launcher, the claims and the guard of every run: in a process that has
trained another size, memory would be in pieces, and its peak would be that of both.
"""

from __future__ import annotations

import ast
import contextlib
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from core.check.keeper import PROBES, end_runs, keep
from core.devices.device import Survey
from core.diagnosis.causes import OF_MEMORY
from core.diagnosis.failures import failure_of
from core.errors import RunError
from core.language import tr
from core.runs import lock
from core.runs.directory import MAX_WORKLOAD_BYTES, ROOT_MODE
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.event_kinds import MemoryPeak
from core.schema.files import make_folder, read_whole
from core.schema.spec import RunSpec
from core.text import join_names

STEPS, STEPS_ON_CPU = 3, 10
"""Optimizer steps of a measurement. The optimizer has its state after the first; the C library needs more until it
uses freed pieces of the host's memory again."""
POLL_S, YOUNG_S = 0.05, 60.0
"""Seconds between two looks at a run. A folder that nobody has locked, and that is older than `YOUNG_S` seconds, was
left by a command that was killed."""
WRITERS = frozenset({"write_text", "write_bytes", "mkdir", "makedirs", "save", "savez", "savefig", "save_image",
                     "imsave", "imwrite", "dump", "to_csv", "to_json", "to_parquet", "to_pickle", "SummaryWriter"})
"""Names of functions that write files, beside `open`."""
MODE = re.compile(r"[rbt]*[wax+][rbt+]*")
"""A mode of `open` that writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a short run has shown of a batch size."""

    batch: int
    peaks: Mapping[str, int]
    """By device id, the most bytes that the run has used on it."""
    left: Mapping[str, int]
    """By device id, the bytes that were free at the peak. Devices on which that is not known are missing."""
    items: int | None
    """Items of the training data; None if it ran out of memory before they were counted."""
    why: str = ""
    """How the memory ran out; the empty string if it did not."""


@contextlib.contextmanager
def probes(root: Path) -> Iterator[Path]:
    """Yield a folder for short runs. At the end, or when this process is killed, they are ended, and it is removed.

    `root`: the folder of runs. Raises `OSError`, and `RunError` where nothing can be locked.
    """
    parent = root.resolve() / PROBES
    make_folder(root, ROOT_MODE)
    make_folder(parent, 0o700)
    with contextlib.ExitStack() as stack:
        folder = keep(Path(tempfile.mkdtemp(dir=parent)), stack)
        held = lock.take(folder)
        assert held is not None, "its name is new"
        stack.callback(held.release)
        for other in parent.iterdir():  # left by commands that were killed together with their keepers
            with contextlib.suppress(OSError):
                left = time.time() - other.stat().st_mtime > YOUNG_S and lock.take(other)
                if left:
                    left.release()
                    end_runs(other)
        yield folder


def measure(
    spec: RunSpec, folder: Path, survey: Survey, available: int | None, cancelled: Event | None = None
) -> Measured:
    """Train a few steps of a spec, and return what they have shown.

    `survey`, `available`: the devices, and the bytes of the host that are available, before the first measurement.
    Raises `RunError` with a sentence if the run ended otherwise than by lack of memory, or if it is `cancelled`.
    """
    training, batch = replace(spec.training, epochs=1), spec.training.batch_size
    steps = STEPS_ON_CPU if any(each.startswith("cpu:") for each in spec.devices) else STEPS
    name = tr("Memory of {name}", name=spec.name)  # claims and processes have it
    run = Run.start(replace(spec, name=name, training=training, probe_steps=steps, time_limit_s=None), folder)
    while not state_info(run.facts.state).over:
        if (cancelled or Event()).wait(POLL_S):
            raise RunError(tr("The measurement was cancelled."))
        run.poll()
    plan, why = run.facts.plan, ""
    if run.facts.state is not RunState.FINISHED:
        failure = failure_of(run.facts, spec, log_end=run.log_end())
        if failure is None or failure.cause not in OF_MEMORY:
            said = tr(run.facts.error or state_info(run.facts.state).sentence)
            raise RunError(tr("The memory could not be measured at batch {batch}. {error}", batch=batch, error=said))
        why = failure.sentence
    found = run.facts.peaks
    return Measured(
        batch=batch, peaks={name: each.peak_bytes for name, each in found.items()}, why=why,
        items=None if plan is None else plan.samples_per_epoch, left=_left([*found.values()], survey, available),
    )


def _left(found: Sequence[MemoryPeak], survey: Survey, available: int | None) -> dict[str, int]:
    """Return what was free on each device at the peak; on CPU devices, what the host had, less if a worker may not."""
    total, left = sum(each.peak_bytes for each in found), dict[str, int]()
    devices = {each.id: each for each in survey.devices}
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    for each in found:
        device, seen = devices[each.device], [] if each.left_bytes is None else [each.left_bytes]
        if device.kind == "cpu" and available is not None:
            seen.append(available - total)
        elif not seen and device.memory_total_bytes is not None and (others := used.get(device.id)) is not None:
            seen.append(device.memory_total_bytes - others - each.peak_bytes)
        if seen:
            left[device.id] = min(seen)
    return left


def writing_words(path: Path) -> str:
    """Return that a recipe seems to write files, and where, to be said before; the empty string if it writes none."""
    try:
        tree = ast.parse(read_whole(path, MAX_WORKLOAD_BYTES, follow_link=True))
    except (OSError, SyntaxError, ValueError):
        return ""
    found = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _writes(node)}
    lines = join_names(tr("line {line}", line=line) for line in sorted(found))
    return lines and tr("{name} writes files ({lines}). The measurement calls its functions, so it writes them, too; "
                        "what is in the folder of a run is removed.", name=path.name, lines=lines)


def _writes(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = int(isinstance(call.func, ast.Name))  # `open(path, mode)`, but `path.open(mode)`
    given = [*call.args[first:2], *(each.value for each in call.keywords if each.arg == "mode")]
    modes = [str(each.value) for each in given if isinstance(each, ast.Constant)]
    return name in WRITERS or (name == "open" and any(MODE.fullmatch(mode) for mode in modes))
