"""What a supervisor watches besides its workers: memory and heat of devices, use of unticked ones, and missing steps.

Loaded after the processes of the run have been started, so that a user's program does not wait for this import.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from core.catalog.strategies import strategy_of
from core.devices.device import Device, Sample
from core.language import join_sentences, tr, tr_plural
from core.memory_watch.watch import HostProcesses, MemoryWatch
from core.runs.fold import ALL_ENDED
from core.schema.event_kinds import Ended, Notice, ProcessInfo, Record, Stall, Waiting
from core.schema.spec import RunSpec
from core.supervisor.watches import DeviceLog, IdleDeviceWatch, SlowdownWatch, StallWatch, UntickedDeviceWatch
from core.system.processes import ProcessId
from core.system.terminate import RunProcesses
from core.text import MAX_NAMES, enumerated

ABORTED_WAIT_S = 10.0
"""Maximum seconds to wait for device memory after a run that cannot go on."""
TICK_S = 0.1
TERMINATING_TICK_S = 0.02
"""Seconds between two looks while processes are being terminated: mostly it takes them milliseconds."""


class RunMonitor:
    """The watches over one start of a run, from its first process to the release of its devices."""

    def __init__(
        self, own: RunProcesses, spec: RunSpec, devices: Sequence[Device], before: Iterable[Sample], *,
        readings: DeviceLog, write: Callable[[Record], None], has_steps: bool,
    ) -> None:
        """`own`: the processes of the run. `before`: readings from before the first process.

        `write`: writes an event. `has_steps`: whether the steps of the run are reported here; those of a part are
        reported to the machine that has the run.
        """
        self._readings, self._write = readings, write
        self.memory = MemoryWatch(own.run_id, devices, spec.release, HostProcesses(own))
        self.memory.begin(before)
        self._unticked = UntickedDeviceWatch(spec.devices, lambda: [each.pid for each in own.find()])
        self._stall = StallWatch(spec.devices) if has_steps else None
        # Whether the devices of the run wait for each other in every step, as far as that is known.
        waits = spec.script is None and not strategy_of(spec).is_asynchronous
        self._slowdown = SlowdownWatch(spec.devices, waits=waits)
        self.idle = IdleDeviceWatch(devices if spec.script is not None else (), before)

    def poll(self, step: int | None, *, trains: bool) -> None:
        """Take new readings and record what they show. `step`: see `StallWatch.poll`. Raises `RecordError`."""
        samples = self._readings.poll()
        self.memory.take(samples)
        self.idle.take(samples)
        now, survey = time.monotonic(), self._readings.survey
        for use in self._unticked.poll(survey, now):
            self._write(use)
        for slowdown in self._slowdown.poll(survey, now) if trains else ():
            self._write(slowdown)
        # A stall is only reported: a validation or a download may take as long.
        if trains and self._stall is not None and (text := self._stall.poll(step, survey, now)) is not None:
            self._write(Stall(text=text))

    def abort(self) -> None:
        """Wait less, and record no readings: the run cannot go on, and the disk may be full."""
        self.memory.hurry(ABORTED_WAIT_S)
        self._readings.records = False  # the last events need the room

    def release(
        self, workers: Iterable[ProcessId], *, is_hurried: Callable[[], bool], meanwhile: Callable[[], Any]
    ) -> None:
        """Terminate what is left of the run, and watch its devices; see `watch_release`."""
        watch_release(self.memory, self._readings, self._write, workers, is_hurried=is_hurried, meanwhile=meanwhile)

    @property
    def leaves_processes(self) -> bool:
        """Whether processes of the run are left that a signal may still end."""
        return any(not each.stuck for each in self.memory.survivors)


def watch_release(
    watch: MemoryWatch, readings: DeviceLog, write: Callable[[Record], None], workers: Iterable[ProcessId], *,
    is_hurried: Callable[[], bool], meanwhile: Callable[[], Any],
) -> None:
    """Step a watch until it is done, and record what it finds.

    Returns at once if no process of the run is left and no device needs a reading. `write`: writes an event.
    `is_hurried`: whether to cut the waiting short. `meanwhile` is called between two steps. Raises `RecordError`.
    """
    watch.take(readings.poll())  # readings that were made before the end
    watch.end(workers)
    while True:
        if is_hurried():
            watch.hurry()
        found = watch.step()
        for number, signalled in watch.signalled:
            write(Notice(text=_signalled(number, signalled)))
        for release in found:
            write(release)
        if (text := watch.waiting()) is not None:
            write(Waiting(text=text))
        if watch.done:
            break
        readings.hasten()
        time.sleep(TERMINATING_TICK_S if watch.survivors else TICK_S)
        meanwhile()
        watch.take(readings.poll())
    if ended := watch.ended():
        write(Ended(by="supervisor", processes=tuple(ended)))


def _signalled(number: signal.Signals, signalled: Sequence[ProcessInfo]) -> str:
    text = tr_plural(
        "A process outlived its worker and was sent {signal}: {processes}.",
        "Processes outlived their worker and were sent {signal}: {processes}.",
        len(signalled),
        signal=number.name,
        processes=enumerated(each.words for each in signalled),
    )
    return join_sentences([text, tr(ALL_ENDED) if len(signalled) > MAX_NAMES else None])
