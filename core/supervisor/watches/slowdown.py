"""Notice that heat or a weak power supply slows a device of the run down, and report it once an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import join_sentences, tr
from core.schema.event_kinds import Slowed

if TYPE_CHECKING:
    from collections.abc import Collection

    from core.devices.device import Device, Sample, Survey

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
