"""What a supervisor looks at besides its workers: the memory of the devices, strays on others, steps that stay away.

Loaded once the processes of the run are started, so that a user's program does not wait for it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from core.memory_watch.machine import HostProcesses
from core.memory_watch.watch import MemoryWatch
from core.supervisor.release import ReleaseWatcher
from core.supervisor.stall import StallWatch
from core.supervisor.unticked_devices import UntickedDeviceWatch
from core.system import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from core.devices.device import Device, Sample
    from core.schema.spec import RunSpec
    from core.supervisor.device_log import DeviceLog
    from core.system.processes import ProcessId

ABORTED_WAIT_S = 10.0
"""A run that cannot go on does not wait for its devices for longer."""


class RunMonitor:
    """Of one leg of a run, from its first process to the release of its devices."""

    def __init__(
        self, run_id: str, spec: RunSpec, devices: Sequence[Device], before: Iterable[Sample], *, readings: DeviceLog,
        write: Callable[..., None],
    ) -> None:  # fmt: skip
        """`before`: readings made before the first process was started. `write`: an event of a kind and fields."""
        self._readings, self._write = readings, write
        self._watch = MemoryWatch(run_id, devices, spec.release, HostProcesses(run_id))
        self._watch.begin(before)
        self._strays = UntickedDeviceWatch(spec.devices, lambda: [each.pid for each in processes.tagged(run_id)])
        self._stall = StallWatch(spec.devices)

    def look(self, step: int | None, *, trains: bool) -> None:
        """Take the readings that have come, and tell what they show. `step`: see `StallWatch`. Raises `RecordError`."""
        self._watch.take(self._readings.poll())
        now, survey = time.monotonic(), self._readings.survey
        for stray in self._strays.look(survey, now):  # in red; they are the recipe's own doing
            self._write("stray", **stray.to_event())
        if trains and (news := self._stall.look(step, survey, now)) is not None:
            # Not ended for it: a validation or a download may take as long.
            self._write("stall", text=news)

    def adopt(self, killed: Iterable[ProcessId]) -> None:
        """See `Watch.adopt`."""
        self._watch.adopt(killed)

    def abort(self) -> None:
        """The run cannot go on: wait less, and leave what room the disk has to the last words."""
        self._watch.hurry(ABORTED_WAIT_S)
        self._readings.stop_recording()

    def release(
        self, workers: Iterable[ProcessId], *, is_hurried: Callable[[], bool], meanwhile: Callable[[], Any]
    ) -> None:
        """End what is left of the run, and watch its devices until they are as they were before, or time is over."""
        ReleaseWatcher(self._watch, self._readings, self._write).run(
            workers, is_hurried=is_hurried, meanwhile=meanwhile
        )

    @property
    def leaves_processes(self) -> bool:
        """Whether processes of the run were left that a signal may still end."""
        return any(not each.stuck for each in self._watch.survivors)
