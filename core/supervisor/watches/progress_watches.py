"""What keeps a run from its progress: no step ends although all processes live, slow devices, or a full disk."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import join_sentences, tr
from core.schema.event_kinds import Slowed
from core.schema.paths import EVENTS, RESERVE
from core.system.procfs import mount_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from core.devices.device import Device, Sample, Survey


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


LASTS_S = 5.0
"""Seconds that a slowdown lasts before it is reported: three readings."""
QUIET_S = 15.0
"""Seconds without a slowdown after which an episode is over: a GPU at its limit goes to and fro."""
POWER = "power supply"
HEAT = frozenset({"far too hot", "too hot"})


@dataclass(slots=True)
class _Episode:
    """A time in which a device is slowed down, with short breaks."""

    began: float
    last: float
    reported: bool = False


class SlowdownWatch:
    """Follows the run's devices. `waits`: whether each of several devices waits for the slowest one."""

    def __init__(self, device_ids: Collection[str], *, waits: bool) -> None:
        self._device_ids, self._waits = device_ids, waits and len(device_ids) > 1
        self._episodes: dict[str, _Episode] = {}

    def poll(self, survey: Survey, now: float) -> list[Slowed]:
        """Return the episodes that began or ended. `now`: seconds of any steady clock."""
        devices = {device.id: device for device in survey.devices}
        found = (
            self._follow(devices[sample.device_id], sample, now)
            for sample in survey.samples
            if sample.device_id in self._device_ids and sample.device_id in devices
        )
        return [each for each in found if each is not None]

    def _follow(self, device: Device, sample: Sample, now: float) -> Slowed | None:
        if sample.lost:
            return None  # it is not known whether the slowdown goes on
        episode = self._episodes.get(device.id)
        if sample.slowdowns:
            if episode is None:
                episode = self._episodes[device.id] = _Episode(now, now)
            episode.last = now
            if episode.reported or now - episode.began < LASTS_S:
                return None
            episode.reported = True
            return Slowed(device_id=device.id, sentence=self._sentence(device, sample))
        if episode is None or (episode.reported and now - episode.last < QUIET_S):
            return None
        del self._episodes[device.id]
        if not episode.reported:
            return None
        return Slowed(device_id=device.id, sentence="", seconds=round(episode.last - episode.began, 1))

    def _sentence(self, device: Device, sample: Sample) -> str:
        what, remedy = _what_and_remedy(device.label, sample)
        return join_sentences([what, tr("It holds the others up.") if self._waits else None, remedy])


def _what_and_remedy(label: str, sample: Sample) -> tuple[str, str]:
    celsius = sample.temperature_celsius
    if HEAT & set(sample.slowdowns):
        hot = tr("{device} is slowed down: it is too hot.", device=label)
        if celsius is not None:
            hot = tr("{device} is slowed down: {celsius:.0f} °C.", device=label, celsius=celsius)
        return hot, tr("Check its cooling.")
    if POWER in sample.slowdowns:
        return tr("{device} is slowed down by its power supply.", device=label), tr("Check its power cables.")
    return tr("{device} is slowed down by its hardware.", device=label), tr("Check its cooling and its power cables.")


class DiskWatch:
    """Remembers when the disk of a run directory was first seen full."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._reserve = run_dir, run_dir / EVENTS / RESERVE
        self._sentence = ""

    def poll(self) -> str:
        """Return in a sentence which disk was full when; the empty string if it was not."""
        if not self._sentence and self._is_full():
            mount = mount_of(self._run_dir)
            disk = (
                tr("The disk of {run_dir}", run_dir=self._run_dir)
                if mount is None
                else tr("The disk at {point} ({kind})", point=mount.point, kind=mount.kind)
            )
            self._sentence = tr("{disk} was full at {time}.", disk=disk, time=time.strftime("%H:%M:%S"))
        return self._sentence

    def _is_full(self) -> bool:
        """Return whether there is no room, or a process of the run had to use its reserve since there was none."""
        try:
            found = os.statvfs(self._run_dir)
        except OSError:
            return False
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail  # some blocks are kept for root
        return (free == 0 and found.f_blocks > 0) or not self._reserve.exists()
