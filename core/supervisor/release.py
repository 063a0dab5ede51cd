"""The end of a run, once its last worker has ended: the watch is stepped, and what it finds is recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from core.memory_watch.verdict import enumerated
from core.runs.verdicts import release_fields
from core.system.process_info import ended_fields

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Sequence

    from core.memory_watch.watch import MemoryWatch
    from core.supervisor.device_log import DeviceLog
    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId

TICK_S = 0.1
ENDING_TICK_S = 0.02  # while processes are being ended: mostly it takes them milliseconds


class ReleaseWatcher:
    """Drives a watch with the readings of the run's devices. `write`: writes an event of a kind and fields."""

    def __init__(self, watch: MemoryWatch, readings: DeviceLog, write: Callable[..., None]) -> None:
        self._watch, self._readings, self._write = watch, readings, write

    def run(
        self, workers: Iterable[ProcessId], *, is_hurried: Callable[[], bool], meanwhile: Callable[[], Any]
    ) -> None:
        """Until the watch is done; returns at once when nothing is left of the run and its memory needs no reading.

        `is_hurried`: whether it is to be short; `meanwhile` is called between two looks. Raises `RecordError`.
        """
        self._watch.take(self._readings.poll())  # what was read by now is no reading after the end
        self._watch.end(workers)
        self._step(is_hurried)
        while not self._watch.done:
            self._readings.hasten()
            time.sleep(ENDING_TICK_S if self._watch.survivors else TICK_S)
            meanwhile()
            self._watch.take(self._readings.poll())
            self._step(is_hurried)
        if ended := self._watch.ended():
            self._write("ended", **ended_fields("supervisor", ended))

    def _step(self, is_hurried: Callable[[], bool]) -> None:
        if is_hurried():
            self._watch.hurry()
        found = self._watch.step()
        for number, whom in self._watch.signalled:
            self._write("notice", text=_signalled(number, whom))
        for release in found:
            self._write("release", **release_fields(release))
        if (text := self._watch.waiting()) is not None:
            self._write("waiting", text=text)


def _signalled(number: signal.Signals, whom: Sequence[ProcessInfo]) -> str:
    who = "A process outlived its worker and was" if len(whom) == 1 else "Processes outlived their worker and were"
    return f"{who} sent {number.name}: {enumerated(holder.words for holder in whom)}."
