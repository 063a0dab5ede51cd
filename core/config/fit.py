"""Whether a training fits into the memory of its devices, as the last run of the same recipe or script tells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from core.config.finding import Finding, Mark, batch_cure
from core.devices.device import Device, Survey
from core.devices.names import TIMES
from core.diagnosis.causes import OF_MEMORY
from core.diagnosis.failures import failure_of
from core.history.differences import BATCH, OTHER, WORKLOAD, Settings, rank
from core.history.summary import SWEEP, TAIL_BYTES, RunSummary, present_facts, setting_values
from core.language import tr, tr_noop
from core.runs.facts import RunFacts, RunState, state_info
from core.schema.event_kinds import MemoryPeak, read_all
from core.schema.events import parse
from core.schema.files import open_to_read
from core.schema.paths import EVENTS
from core.schema.spec import RunSpec
from core.text import BYTES_PER_GB

OF_NO_SIZE = {SWEEP, "epochs", "devices", "schedule", "warmup_steps", "weight_decay", "patience", "stop_on_nan"}
"""Settings that memory does not depend on, or that are compared on their own."""
MAX_READ = 5
"""Runs whose events are read at most. All others are compared in memory."""


def fit_of(spec: RunSpec, chosen: Sequence[Device], survey: Survey, runs: Sequence[RunSummary]) -> list[Finding]:
    """Return whether a training on these devices fits; nothing if no earlier run tells. `runs`: newest first."""
    batch, sizes = spec.training.batch_size, {each.id: _size(each.memory_total_bytes) for each in chosen}
    found = ((run, peaks) for run in _nearest(spec, runs) if (peaks := _peaks(run)).keys() == {*sizes.values()})
    last, peaks = next(found, (None, {}))
    if last is None:
        return []
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    free = [(sizes[each.id], (each.memory_total_bytes or 0) - taken, each.label) for each in chosen
            if each.kind != "cpu" and (taken := used.get(each.id)) is not None]
    full = min(((left, label) for size, left, label in free if peaks[size] > left), default=None)
    failed, then = _ran_out_of_memory(last.error), None if spec.script else last.settings["batch_size"]
    size = max(peaks, key=lambda each: peaks[each] / max(each, 1))
    words = {"peak": f"{peaks[size] / BYTES_PER_GB:.3g}", "total": size,
             "at": "" if then is None else tr(" at batch {batch}", batch=then)}
    if not failed and not full:  # how much more a larger batch needs is not known
        sentence = tr("Fits: {peak} of {total} GB{at} last time.", **words)
        return [] if then is not None and batch > int(then) else [Finding(mark=Mark.READY, sentence=sentence)]
    now = tr("; {free} GB are free now on {label}", free=f"{full[0] / BYTES_PER_GB:.3g}", label=full[1]) if full else ""
    sentence = tr_noop("May not fit: peak {peak} of {total} GB{at} last time{now}.")
    if failed:
        sentence = tr_noop("Did not fit last time: peak {peak} of {total} GB{at}{now}.")
    fitted = (int(run.settings["batch_size"] or 0) for run, needs in found if spec.script is None
              and not _ran_out_of_memory(run.error) and all(needs[size] <= left for size, left, _ in free))
    cures = tuple(batch_cure(each) for each in fitted if each < batch)[:1]
    return [Finding(mark=Mark.WARNING, sentence=tr(sentence, now=now, **words), cures=cures)]


def _nearest(spec: RunSpec, runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the newest of the runs like this, of each batch size and kind of devices; the nearest batch first."""
    alike, newest = of_size(setting_values(spec, {})), dict[object, RunSummary]()
    for run in runs:
        given = run.settings
        key = given.get("batch_size"), given.get("devices")
        if key in newest or any(given.get(each) != value for each, value in alike.items()):
            continue
        count = sum(map(int, re.findall(rf"(\d+){TIMES}", str(key[1]))))
        is_over = state_info(run.state).over and (run.step or _ran_out_of_memory(run.error))
        if is_over and count == len(spec.devices) and len(of_size(given)) == len(alike):
            newest[key] = run
    found = [*newest.values()]
    if spec.script is None:
        found.sort(key=lambda run: abs(int(run.settings["batch_size"] or 0) - spec.training.batch_size))
    return found[:MAX_READ]


def of_size(settings: Settings) -> Settings:
    """Return the settings of which memory may depend, besides the batch size of a recipe."""
    return {name: value for name, value in settings.items()
            if name not in OF_NO_SIZE and (name != "batch_size" or "script" in settings)
            and rank(name) in {WORKLOAD, OTHER, BATCH}}


def _peaks(run: RunSummary) -> Mapping[int, int]:
    """Return the most bytes that a run itself has used on one device, or on all CPUs, by its size in whole GB.

    Its workers record no memory of the driver's. Readings miss short peaks; that of a CPU device is of whole processes.
    """
    facts, recorded, peaks = present_facts(run.dir), _recorded(run.dir), dict[int, int]()
    further = {device for worker in facts.workers.values() for device in worker.devices[1:]}
    for device, release in facts.releases.items():
        own, used, is_cpu = recorded.get(device, 0), release.before_bytes, device.startswith("cpu:")
        if release.peak_bytes is not None and used is not None and (used <= BYTES_PER_GB or is_cpu):
            own = own if is_cpu and (own or device in further) else max(own, release.peak_bytes - used)
        elif not own:
            return {}  # what others had then, they may have given back before the peak
        size = _size(facts.devices.get(device, {}).get("memory_total_bytes"))
        peaks[size] = own + peaks.get(size, 0) if is_cpu else max(own, peaks.get(size, 0))
    return peaks


def _recorded(run_dir: Path) -> Mapping[str, int]:
    """Return the peaks that the workers of a recipe have last recorded, by device."""
    last = dict[tuple[int, str], int]()
    for path in (run_dir / EVENTS).glob("worker-*"):
        with contextlib.suppress(OSError), open_to_read(path) as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            found = (parse(line) for line in file if b'"peak"' in line)
            last |= {(each.rank, each.device): each.peak_bytes for each in read_all(MemoryPeak, filter(None, found))}
    return {device: sum(last[each] for each in last if each[1] == device) for _, device in last}


@lru_cache(maxsize=256)
def _ran_out_of_memory(error: str | None) -> bool:
    failure = failure_of(RunFacts(state=RunState.FAILED, error=error), None)
    return failure is not None and failure.cause in OF_MEMORY


def _size(total_bytes: int | None) -> int:
    return round((total_bytes or 0) / BYTES_PER_GB)
