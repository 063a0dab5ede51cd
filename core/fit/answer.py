"""Choose the batch sizes to measure, find the largest that fits, and measure what else would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from core.config.examination import spec_obstacles
from core.config.validation import batch_divisor, remedies
from core.devices.device import Device, Survey
from core.fit.probe import Measured, measure, probes
from core.language import tr, tr_noop
from core.schema.spec import RunSpec
from core.system import procfs
from core.text import size

MARGIN, LEAST_BYTES, HOST_MARGIN = 0.03, 300 * 1024**2, 0.1
"""What the largest batch leaves free: this share of a GPU's memory, at least these bytes, or this share of the host's:
when a host runs out of memory, the kernel ends processes, or the machine stands still."""
FACTORS = 4, 2
"""How many times as large the second size is; the next if that does not fit. A line through near ones leads astray."""
TRIES, NEAR = 8, 16
"""Measurements with which the largest batch is proved, at most, and the part of a batch that is worth another one."""
Measure = Callable[[RunSpec], Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether a training fits, and what else was measured."""

    devices: tuple[Device, ...]
    asked: Measured
    points: tuple[Measured, ...]
    """All measured batch sizes, the smallest first."""
    largest: int | None
    """The largest batch that fits; None if that is not known, or none does."""
    proved: bool
    """Whether the largest batch was measured."""
    remedies: Mapping[str, Measured]
    """What was measured with a remedy, by its name."""

    @property
    def fits(self) -> bool:
        return not self.asked.why

    def at(self, batch: int) -> Answer | None:
        """Return the answer for another batch; None if that was not measured."""
        asked = next((each for each in self.points if each.batch == batch), None)
        return None if asked is None else replace(self, asked=asked)

    @property
    def sentences(self) -> list[str]:
        """The answer in sentences."""
        batch, left = self.asked.batch, self.asked.left
        labels = {each.id: each.label for each in self.devices}
        tightest = min(labels, key=lambda each: left.get(each, math.inf))
        said = []
        if not self.fits:
            said.append(tr("Does not fit at batch {batch}. {why}", batch=batch, why=self.asked.why))
        else:
            said.append(tr("Fits at batch {batch}: {size} to spare on {label}.", batch=batch, label=labels[tightest],
                           size=size(left.get(tightest))))
        if self.largest is None:
            said.append(tr("The largest batch is not known.") if self.fits else tr("No smaller batch fits."))
        elif self.proved:
            said.append(tr("The largest batch is {batch}; a measurement has proved it.", batch=self.largest))
        else:
            need = max(predicted_peaks(self.points, self.largest).values(), default=None)
            said.append(tr("The largest batch is about {batch}, with {size} on a device.",
                           batch=self.largest, size=size(need)))
        for name, found in self.remedies.items():
            words, more = tr_noop("With {name}: {size} more."), 0
            if found.why or not self.fits:
                words = tr_noop("With {name} it does not fit either.") if found.why else tr_noop("With {name} it fits.")
            elif (more := _most(found) - _most(self.asked)) < 0:
                words = tr_noop("With {name}: {size} less.")
            said.append(tr(words, name=name, size=size(abs(more))))
        return said

    @property
    def document(self) -> dict[str, Any]:
        """The answer as JSON."""
        asked = self.asked
        return {
            "fits": self.fits, "batch": asked.batch, "largest_batch": self.largest, "proved": self.proved,
            "devices": {each.id: {"peak_bytes": asked.peaks.get(each.id), "left_bytes": asked.left.get(each.id)}
                        for each in self.devices},
            "measured": [{"batch": each.batch, "fits": not each.why, "peak_bytes": dict(each.peaks)}
                         for each in self.points],
            "remedies": [{"id": name, "fits": not found.why, "peak_bytes": dict(found.peaks)}
                         for name, found in self.remedies.items()],
            "sentences": self.sentences,
        }


def _most(found: Measured) -> int:
    return max(found.peaks.values(), default=0)


def measured_answer(
    spec: RunSpec, survey: Survey, root: Path, tell: Callable[[str], object], *, largest: bool, others: bool = False,
    cancelled: Event | None = None,
) -> Answer:
    """Find the answer by short runs in a folder of runs. `tell` is called with a sentence before each.

    Raises `RunError` with a sentence if one of them fails or all are `cancelled`, and `OSError`.
    """
    available = procfs.available_bytes()
    with probes(root) as folder:

        def one(each: RunSpec) -> Measured:
            tell(tr("Measuring batch {batch}, strategy {strategy}, {precision}, accumulation {accumulation}.",
                    batch=each.training.batch_size, strategy=each.strategy, precision=each.training.precision,
                    accumulation=each.training.accumulation))
            return measure(each, folder, survey, available, cancelled)

        return find_answer(spec, survey.devices, one, largest=largest, others=others)


def find_answer(
    spec: RunSpec, devices: Sequence[Device], measure: Measure, *, largest: bool, others: bool
) -> Answer:
    """Measure the batch of a spec and a second one; with `largest` prove the largest, with `others` try the remedies.

    `devices`: all of this machine. Raises what `measure` does.
    """
    points, divisor = dict[int, Measured](), batch_divisor(spec)

    def at(batch: int) -> Measured:
        points[batch] = measure(replace(spec, training=replace(spec.training, batch_size=batch)))
        return points[batch]

    chosen = tuple(each for each in devices if each.id in spec.devices)
    asked = found = at(spec.training.batch_size)
    while found.why and (half := found.batch // 2 // divisor * divisor):
        found = at(half)
    if not found.why:
        larger = [each * found.batch for each in FACTORS if not asked.why and each <= _surely(found, chosen)]
        smaller = found.batch // 2 // divisor * divisor
        if all(each > (found.items or each) or at(each).why for each in larger) and smaller:
            at(smaller)
    best = None if found.why else predicted_largest(list(points.values()), chosen, divisor)
    proved = largest and best is not None
    for _ in range(TRIES if proved else 0):
        last = _on_line(list(points.values()))[-1]
        best = predicted_largest(list(points.values()), chosen, divisor) or last.batch
        # By steps: a wrong line must not fill the memory of the host.
        more = min(best, _rounded(int(min(FACTORS[0], _surely(last, chosen)) * last.batch), divisor))
        if more - last.batch < last.batch / NEAR:
            break
        at(more)
    if proved:
        best = max(each.batch for each in points.values() if not each.why)
    tried = dict[str, Measured]()
    for name, (changed, _) in remedies(spec).items() if others else ():
        if not spec_obstacles(changed, devices):
            tried[name] = measure(changed)
    return Answer(devices=chosen, asked=asked, points=tuple(points[each] for each in sorted(points)),
                  largest=_with_items(best, found.items, divisor), proved=proved, remedies=tried)


def _with_items(batch: int | None, items: int | None, divisor: int) -> int | None:
    """Return a batch that was measured, or predicted; at most all items, of which it then was."""
    return batch if batch is None or items is None else min(batch, items // divisor * divisor or batch)


def _surely(found: Measured, devices: Sequence[Device]) -> float:
    """Return how many times the batch surely fits: memory grows with it at most in proportion."""
    of_host = sum(found.peaks.get(each.id, 0) for each in devices if each.kind == "cpu")
    return min((1 + left / (of_host or found.peaks[name]) for name, left in found.left.items()), default=math.inf)


def _on_line(points: Sequence[Measured]) -> list[Measured]:
    """Return the two largest that fit, the smaller one first."""
    return sorted((each for each in points if not each.why), key=lambda each: each.batch)[-2:]


def predicted_peaks(points: Sequence[Measured], batch: int) -> dict[str, int]:
    """Return the peak of each device at a batch, in bytes, by the line through two points."""
    one, two = (_on_line(points) * 2)[:2]
    if one is two:
        return dict(one.peaks) if batch == one.batch else {}
    part = (batch - one.batch) / (two.batch - one.batch)
    return {device: round(peak + part * (two.peaks[device] - peak)) for device, peak in one.peaks.items()}


def predicted_largest(points: Sequence[Measured], devices: Sequence[Device], divisor: int) -> int | None:
    """Return the largest batch that leaves a margin by that line, at most one of all items; None if nothing bounds it.

    It is not smaller than the largest that was measured and fits.
    """
    *others, last = _on_line(points)
    is_alone = not others and not any(each.why for each in points)  # how memory grows is not known
    bounds = [] if last.items is None or is_alone else [last.items // divisor * divisor]
    for one in others:
        for device in devices:
            left, before = last.left.get(device.id), one.left.get(device.id)
            if left is None or before is None or before <= left:
                continue
            per_item = (before - left) / (last.batch - one.batch)
            of_host, total = device.kind == "cpu" or device.shared_memory, device.memory_total_bytes or 0
            margin = HOST_MARGIN * (last.peaks[device.id] + left) if of_host else max(MARGIN * total, LEAST_BYTES)
            bounds.append(_rounded(last.batch + int((left - margin) / per_item), divisor))
    if not bounds:
        return None
    best = max(min(bounds), last.batch)
    failed = min((each.batch for each in points if each.why), default=best + 1)
    return best if best < failed else _rounded((last.batch + failed) // 2, divisor)


def _rounded(batch: int, divisor: int) -> int:
    """Return a round number that is at most a sixteenth below a batch."""
    step = divisor
    while step * 2 * NEAR <= batch:
        step *= 2
    return batch // step * step
