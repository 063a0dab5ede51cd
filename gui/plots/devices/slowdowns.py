"""The slowdowns of devices, as arrays: a GPU at its limit may have one every other second for hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from core.series.device_readings import Slowdown
from core.series.run_series import RunSeries
from gui.plots.items.line import NOTHING
from gui.plots.items.multi_line import Flags

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats


class SlowdownTimes:
    """The slowdowns of one device, in order of time."""

    def __init__(self) -> None:
        self._known: tuple[object, ...] = ()
        self._since, self._until = NOTHING, NOTHING

    def update(self, slowdowns: Sequence[Slowdown]) -> None:
        """Take these slowdowns; of the same list, only the last may have become longer since the last call."""
        known = (id(slowdowns), len(slowdowns), slowdowns[0].since, slowdowns[-1].until)
        if known != self._known:
            self._known = known
            self._since = np.array([each.since for each in slowdowns])
            self._until = np.array([each.until for each in slowdowns])

    def at(self, times: Floats, slack_s: float = 0.0) -> Flags:
        """Return which of these unix times are in a slowdown, or nearer to one than the slack."""
        last = np.searchsorted(self._since - slack_s, times, side="right") - 1
        found: Flags = (last >= 0) & (times <= self._until[np.maximum(last, 0)] + slack_s)
        return found

    def columns(self, width_s: float, first: int, count: int) -> Flags:
        """Return which columns have a slowdown; column n covers the unix times from n * width on."""
        begin = np.clip(np.floor_divide(self._since, width_s) - first, 0, count).astype(np.intp)
        end = np.clip(np.floor_divide(self._until, width_s) - first + 1, 0, count).astype(np.intp)
        changes = np.bincount(begin, minlength=count + 1) - np.bincount(end, minlength=count + 1)
        found: Flags = np.cumsum(changes)[:count] > 0
        return found


class Slowdowns:
    """The slowdowns of all devices of a run."""

    def __init__(self) -> None:
        self._times: dict[str, SlowdownTimes] = {}

    def of(self, run_series: RunSeries, device: str) -> SlowdownTimes | None:
        """Return the slowdowns of a device; None if it had none."""
        found = run_series.slowdowns.get(device)
        if not found:
            return None
        times = self._times.setdefault(device, SlowdownTimes())
        times.update(found)
        return times
