"""Whether something disturbed a run: other programs on its GPUs, or a machine short of processor, memory or disk."""

from __future__ import annotations

import os
import re
import resource
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from core.devices.device import Survey
from core.devices.reader import PROCESSES_S
from core.diagnosis.evidence import DISTURBED
from core.language import tr, tr_noop
from core.runs.facts import RunFacts, RunState
from core.schema.spec import RunSpec
from core.supervisor.companion import Companion
from core.supervisor.workers import WorkerGroup
from core.system import processes
from core.system.procfs import PROC, TICKS_PER_S
from core.system.terminate import RunProcesses
from core.text import join_names

MIN_S = 60.0
"""Seconds of training below which nothing is said."""
SHARE = 0.15
"""A disturbance is told if it lasts for at least this share of the time. Other programs disturb a run if they use at
least this share of the processors.

The kernel's `Documentation/accounting/psi.rst` has 150 ms in each second as its example of a threshold.
"""
USED_PERCENT = 5.0
"""Share of a GPU's time from which another program uses it: a desktop takes less."""
PRESSURES = {"memory": tr_noop("processes waited for memory {percent} % of the time"),
             "io": tr_noop("processes waited for a disk {percent} % of the time, perhaps its own")}


class Reading(NamedTuple):
    """What the kernel has counted up to a time, in seconds of a steady clock."""

    time: float
    pressure_us: dict[str, int]
    """By file of `/proc/pressure`, for how long some task had to wait; missing where the kernel does not say."""
    ticks: tuple[int, ...]
    """Of all processors, as the first line of `/proc/stat` has them: user, nice, system, idle, iowait, irq, ..."""


def read(now: float, proc: Path = PROC) -> Reading:
    """Read the counters of this machine."""
    found = {}
    for name in ("cpu", *PRESSURES):
        try:
            total = re.search(r"^some .*total=(\d+)", (proc / "pressure" / name).read_text(), re.MULTILINE)
        except OSError:
            continue
        if total is not None:
            found[name] = int(total[1])
    fields = (proc / "stat").read_text().split("\n", 1)[0].split()[1:9] if (proc / "stat").exists() else []
    return Reading(now, found, tuple(map(int, fields)))


class Disturbances(Companion):
    """Counts while a run trains. A run that fills the machine itself is not disturbed by a busy processor."""

    def __init__(self, run_dir: Path, proc: Path = PROC, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_id, self._proc, self._clock = run_dir.name, proc, clock
        self._workers = WorkerGroup(run_dir)
        self._readings: list[Reading] = []
        """The first and the last."""
        self._looks, self._used = Counter[str](), Counter[str]()
        """By label of a GPU: how often its processes were read, and how often others used it then."""

    def start(self, workers: WorkerGroup, spec: RunSpec) -> None:  # noqa: ARG002 (of a companion)
        self._workers = workers

    def watch(self, survey: Survey, facts: RunFacts) -> None:
        now = self._clock()
        if facts.state is not RunState.RUNNING or (self._readings and now < self._readings[-1].time + PROCESSES_S):
            return
        self._readings = [*self._readings[:1], read(now, self._proc)]
        labels = {each.id: each.label for each in survey.devices if each.id in facts.devices and not each.is_mig}
        for sample in survey.samples:
            listed = sample.processes if sample.device_id in labels else None
            own = self._own([each.pid for each in listed]) if listed else set()
            shares = [each.utilisation_percent for each in listed or () if each.pid not in own]
            known = [each for each in shares if each is not None]
            if own and len(known) == len(shares):  # without an own one, the pids may be those of another namespace
                self._looks[labels[sample.device_id]] += 1
                self._used[labels[sample.device_id]] += sum(known) >= USED_PERCENT

    def _own(self, pids: list[int]) -> set[int]:
        """Return which of these processes belong to the run."""
        own = {pid for pid in pids if processes.is_of_run(pid, self._run_id, self._proc)}
        if own and len(own) < len(pids):  # the environment of a process of the run may be cleared
            guard = processes.identify(os.getppid(), self._proc)
            every = RunProcesses(run_id=self._run_id, supervisor=os.getpid(), guard=guard, proc=self._proc).find()
            own |= {each.pid for each in every}.intersection(pids)
        return own

    def settle(self) -> str:
        """Return what disturbed the run, in a sentence; the empty string for nothing, or if it is not known."""
        if len(self._readings) < 2 or self._readings[1].time - self._readings[0].time < MIN_S:
            return ""
        marks = [
            tr("other programs used {device} for {percent} % of the time", device=device, percent=round(100 * share))
            for device, count in self._looks.items() if (share := self._used[device] / count) >= SHARE
        ]
        first, last = self._readings
        shares = {name: (total - first.pressure_us[name]) / 1e6 / (last.time - first.time)
                  for name, total in last.pressure_us.items() if name in first.pressure_us}
        others = self._others()
        if shares.get("cpu", 0.0) >= SHARE and others is not None and others >= SHARE:
            marks.append(tr("processor pressure {percent} % of the time, while other programs used {others} % of the "
                            "processors", percent=round(100 * shares["cpu"]), others=round(100 * others)))
        marks += [tr(text, percent=round(100 * shares[name])) for name, text in PRESSURES.items()
                  if shares.get(name, 0.0) >= SHARE]
        return tr(DISTURBED, marks=join_names(marks)) if marks else ""

    def _others(self) -> float | None:
        """Return the share of the processors that others had; None if unknown, as of workers that a signal ended."""
        first, last = self._readings
        spent = [after - before for before, after in zip(first.ticks, last.ticks, strict=False)]
        if len(spent) < 8 or not sum(spent) or any((each.exit_code or 0) < 0 for each in self._workers.members):
            return None  # a worker that a signal ended leaves processes to others, whose time is not counted here
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = (children.ru_utime + children.ru_stime) * TICKS_PER_S
        return (sum(spent) - spent[3] - spent[4] - own) / sum(spent)
