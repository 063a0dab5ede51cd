"""The one loss by which runs are compared, in every list, header and plot: the best of validation, else a mean."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.language import tr
from core.schema.event_kinds import MetricRestart, Metrics, Rewind
from core.schema.event_log import FOREIGN_BYTES
from core.schema.events import parse
from core.schema.files import open_to_read

LOSS, VALIDATION_LOSS = "loss", "val_loss"
WEIGHT = 0.6
"""The weight of the mean, which the loss plot has, too, until it is changed: see `core.series.series`."""
RECENT = 100
"""Values of which the mean is taken: what earlier ones add cannot be seen in a float64."""
CHUNK_BYTES = 512 * 1024
DECISIVE = (f'"{VALIDATION_LOSS}":['.encode(), b'"rewind"', f'"{MetricRestart.kind}"'.encode())
"""What a line has that can change the best validation; the others are not parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoss:
    """A loss, and whether it is one of validation."""

    value: float
    is_validation: bool
    step: int | None = None
    """The step of the best validation."""

    @property
    def title(self) -> str:
        """What it is, in a word or two, to stand before the value."""
        return tr("val. loss") if self.is_validation else tr("loss")


def run_loss(best_validation: tuple[int, float] | None, mean: float | None, last: float | None) -> RunLoss | None:
    """Return the loss of a run: the best of its validations (step and value); else the mean; else the last loss."""
    if best_validation is not None:
        return RunLoss(value=best_validation[1], is_validation=True, step=best_validation[0])
    value = mean if mean is not None else last
    return None if value is None else RunLoss(value=value, is_validation=False)


def recent_mean(newest: Sequence[float | None]) -> float | None:
    """Return the exponential mean after the last of these values, oldest first; None without a finite one."""
    finite = [value for value in newest if value is not None and math.isfinite(value)][-RECENT:]
    weights = [WEIGHT**age for age in reversed(range(len(finite)))]
    if not finite:
        return None
    mean = sum(weight * value for weight, value in zip(weights, finite, strict=True)) / sum(weights)
    return mean if math.isfinite(mean) else None


class ValidationReader:
    """Finds the validations in a file of measurements as it grows. What a resume has made void does not count."""

    def __init__(self, *, foreign: bool) -> None:
        """`foreign`: the run belongs to another user, and only its beginning is read."""
        self._most = FOREIGN_BYTES if foreign else None
        self._offset = 0
        self._best: list[tuple[int, float]] = []
        """Each validation that was better than all before it: after a rewind, an earlier one is the best again."""

    @property
    def best(self) -> tuple[int, float] | None:
        """The step and the value of the smallest validation loss so far."""
        return self._best[-1] if self._best else None

    def read(self, path: Path, until: float | None = None) -> bool:
        """Read what is new, until `until` (`time.monotonic()`); return whether that is all."""
        try:
            with open_to_read(path) as file:
                size = min(os.fstat(file.fileno()).st_size, self._most or math.inf)
                while self._offset < size:
                    if until is not None and time.monotonic() > until:
                        return False
                    file.seek(self._offset)
                    chunk = file.read(CHUNK_BYTES)
                    whole = chunk.rfind(b"\n") + 1
                    if not whole and len(chunk) < CHUNK_BYTES:
                        break  # its end is not written yet
                    self._offset += whole or len(chunk)  # such a long line is a batch, which has no validation
                    self._take_in(chunk[:whole])
        except OSError:
            pass
        return True

    def _take_in(self, chunk: bytes) -> None:
        for line in _lines_with(chunk, DECISIVE):
            event = parse(line)
            if event is None:
                continue
            if event["kind"] == Rewind.kind:
                self._best = [found for found in self._best if found[0] <= event["step"]]
            elif event["kind"] == MetricRestart.kind and VALIDATION_LOSS in event["metrics"]:
                self._best = []
            elif event["kind"] == Metrics.kind:
                for step, value in enumerate(event["values"].get(VALIDATION_LOSS, ()), event["first"]):
                    if value is not None and math.isfinite(value) and (self.best is None or value < self.best[1]):
                        self._best.append((step, float(value)))


def _lines_with(chunk: bytes, parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield each line that has one of these parts, in order."""
    places = sorted(place for part in parts for place in _places(chunk, part))
    end = 0
    for place in places:
        if place >= end:
            begin, end = chunk.rfind(b"\n", 0, place) + 1, chunk.find(b"\n", place) + 1
            yield chunk[begin:end]


def _places(chunk: bytes, part: bytes) -> Iterator[int]:
    place = chunk.find(part)
    while place >= 0:
        yield place
        place = chunk.find(part, place + 1)
