"""Monitor: the devices as they are now, and how they were in the last minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.book import SeriesBook
from core.devices.device import Survey
from core.devices.sampler import Sampler
from core.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.devices.device import Sample

KEPT_S = 600.0
SLACK_S = 60.0
"""The history is cut to `KEPT_S` whenever it is longer by this: seldom, and never by much."""
WATCHED_PERIOD_S = 0.5
UNWATCHED_PERIOD_S = 1.0


class Monitor:
    """The devices live. `poll` never waits; nothing is started before the first one."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._sampler = sampler or Sampler(period_s=UNWATCHED_PERIOD_S)
        self.survey = Survey()
        self.book = SeriesBook()
        """The readings of the last ten minutes or so."""

    def poll(self) -> bool:
        """Take in what there is; whether anything is new."""
        survey = self._sampler.poll()
        samples = self._sampler.new_samples()
        self._record(samples)
        changed = bool(samples) or survey != self.survey
        self.survey = survey
        return changed

    def watch_closely(self, closely: bool) -> None:
        """Read more often while somebody looks."""
        self._sampler.set_period(WATCHED_PERIOD_S if closely else UNWATCHED_PERIOD_S)

    def close(self) -> None:
        """End the helper processes."""
        self._sampler.close()

    def _record(self, samples: Iterable[Sample]) -> None:
        ordered = sorted(samples, key=lambda sample: sample.time)
        self.book.fold(
            {
                "t": sample.time,
                "kind": "sample",
                "device": sample.device_id,
                "utilisation_percent": sample.utilisation_percent,
                "memory_used_bytes": sample.memory_used_bytes,
            }
            for sample in ordered
        )
        if ordered and self.book.duration_s > KEPT_S + SLACK_S:
            trim(self.book, ordered[-1].time - KEPT_S)


def trim(book: SeriesBook, since: float) -> None:
    """Forget the readings before `since`, unix seconds; a device without later ones is forgotten."""
    for readings in (book.utilisation, book.memory):
        for device, series in list(readings.items()):
            kept = _after(series, since)
            if len(kept):
                readings[device] = kept
            else:
                del readings[device]
    book.started = since
    book.version += 1


def _after(series: Series, since: float) -> Series:
    first = int(np.searchsorted(series.times, since))
    kept = Series()
    steps = np.arange(len(series) - first, dtype=np.float64)  # a reading's step is its number, from 0
    kept.append(steps, series.times[first:].copy(), series.values[first:].copy())
    return kept
