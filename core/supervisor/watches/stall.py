"""Notice that no step ends although all processes live, and report it with the utilisation of the devices."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Collection

    from core.devices.device import Survey

PATIENCE_S = 60.0
"""Minimum seconds without a step before a stall is reported."""
FIRST_PATIENCE_S = 300.0
"""As `PATIENCE_S`, before the first step: frameworks compile, and data are read for the first time."""
PAUSE_FACTOR = 10.0
"""A stall is longer than this many times the longest pause between two steps so far, such as a validation."""


class StallWatch:
    """Reports when no step has ended for too long, and when steps go on."""

    def __init__(self, device_ids: Collection[str], *, patience_s: float = PATIENCE_S) -> None:
        self._device_ids, self._patience_s = device_ids, patience_s
        self._step: int | None = None
        self._since: float | None = None
        self._longest_s = 0.0
        self._reported = False

    def poll(self, step: int | None, survey: Survey, now: float) -> str | None:
        """Return a sentence on a new stall, the empty string when steps go on after one, and None otherwise.

        `step`: the latest reported since training began; None before the first. `now`: seconds of a steady clock.
        """
        since = now if self._since is None else self._since
        if step != self._step or self._since is None:
            return self._go_on(step, since, now)
        if self._reported or now - since < self._allowed_s:
            return None
        self._reported = True
        return _sentence(step, now - since, self._busy(survey))

    def _go_on(self, step: int | None, since: float, now: float) -> str | None:
        if self._step is not None:
            self._longest_s = max(self._longest_s, now - since)
        was_reported, self._reported = self._reported, False
        self._step, self._since = step, now
        return "" if was_reported else None

    @property
    def _allowed_s(self) -> float:
        min_s = self._patience_s if self._step is not None else max(self._patience_s, FIRST_PATIENCE_S)
        return max(min_s, PAUSE_FACTOR * self._longest_s)

    def _busy(self, survey: Survey) -> str:
        """Return `GPU 0: 100 %, GPU 1: 0 %` for the run's devices that have readings."""
        percent = {sample.device_id: sample.utilisation_percent for sample in survey.samples}
        labels = {device.id: device.label for device in survey.devices}
        known = [each for each in self._device_ids if percent.get(each) is not None and each in labels]
        return ", ".join(f"{labels[each]}: {percent[each]:.0f} %" for each in known)


def _sentence(step: int | None, still_s: float, busy: str) -> str:
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - still_s))
    which = (
        tr("since step {step} at {since}", step=step, since=since)
        if step is not None
        else tr("since training began at {since}", since=since)
    )
    devices = f" ({busy})" if busy else ""
    return tr(
        "No step has been reported {which}, but all processes are running{devices}. A process may be waiting for data "
        "or for another process; a long validation looks the same. If training does not continue, stop the run.",
        which=which,
        devices=devices,
    )
