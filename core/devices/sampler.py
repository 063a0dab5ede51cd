"""The devices of this machine and their readings, for the window and for the supervisor."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from core.devices.device import Survey
from core.devices.kinds import KINDS
from core.devices.reader import PROCESSES_S, Options, ReadIntervals
from core.devices.source import HelperSource, HelperTimeouts, LocalSource
from core.language import join_sentences, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from core.devices.device import Sample
    from core.devices.kinds import Kind

POLL_S = 0.01
"""Seconds between two polls in `Sampler.survey`."""


class Sampler:
    """Reads all kinds of devices; kinds whose driver can hang are read in a helper process each.

    No helper is started before the first poll. `only` are the ids of the devices to list and read, None for all; a
    kind without a wanted device costs nothing. A sleeping GPU is listed as asleep, unless it must be woken up for an
    id in `wake` or `only`. `clock` gives seconds and never goes back. Raises `ValueError` if `period_s` is not above 0.
    """

    def __init__(
        self,
        *,
        kinds: Sequence[Kind] = KINDS,
        only: Collection[str] | None = None,
        wake: Collection[str] = (),
        period_s: float = 1.0,
        timeouts: HelperTimeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        timeouts = timeouts or HelperTimeouts()
        options = Options(
            only=None if only is None else frozenset(only), retry_s=timeouts.retry_s, wake=frozenset(wake)
        )
        self._clock = clock
        self._intervals = ReadIntervals(load=period_s)
        self._sources = [
            HelperSource(kind, options, self._intervals, timeouts)
            if kind.isolated
            else LocalSource(kind, options, self._intervals, clock())
            for kind in kinds
            if options.only is None or _has_any(kind, options.only)
        ]
        self._surveyed: tuple[object, Survey] = None, Survey()
        """What was known, and the survey made of it: most polls find nothing new."""

    @classmethod
    def for_run(cls, device_ids: Collection[str]) -> Self:
        """Return a sampler for a run on these devices.

        For a run on GPUs it reads all GPUs, so that a process of the run on another one is seen.
        """
        isolated = [kind for kind in KINDS if kind.isolated and _has_any(kind, device_ids)]
        return cls(kinds=isolated, wake=device_ids) if isolated else cls(only=device_ids)

    def poll(self) -> Survey:
        """Return what is known now. Read CPU devices when due; never wait for a helper process."""
        now = self._clock()
        for source in self._sources:
            source.poll(now)
        banner = _join([source.banner(now) for source in self._sources])
        known = banner, [source.store.version for source in self._sources]
        if known != self._surveyed[0]:
            self._surveyed = known, self._survey(banner)
        return self._surveyed[1]

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, per kind in order of time."""
        return [sample for source in self._sources for sample in source.store.fetch()]

    def set_period(self, period_s: float, *, processes_s: float = PROCESSES_S) -> None:
        """Read utilisation and memory every `period_s` seconds from now on, and process lists every `processes_s`."""
        intervals = replace(self._intervals, load=period_s, processes=processes_s)
        if intervals != self._intervals:
            self._intervals = intervals
            for source in self._sources:
                source.set_intervals(intervals)

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By CPU device, set the processes of runs on it: the device's memory is theirs and their descendants'."""
        for source in self._sources:
            if isinstance(source, LocalSource):
                source.watch(pids)

    def survey(self, timeout_s: float) -> Survey:
        """Wait until every kind has answered and return the survey; its banner names those too late."""
        deadline = self._clock() + timeout_s
        survey = self.poll()
        while self._silent() and self._clock() < deadline:
            time.sleep(POLL_S)
            survey = self.poll()
        now = self._clock()
        late = [source for source in self._silent() if source.banner(now) is None]  # the others' banners say why
        sentences = [
            tr(
                "{kind} devices have not answered within {seconds:g} s.",
                kind=source.kind.title,
                seconds=timeout_s,
            )
            for source in late
        ]
        return replace(survey, banner=_join([survey.banner, *sentences]))

    def close(self) -> None:
        """Terminate the helper processes and wait for their end."""
        for source in self._sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _silent(self) -> list[HelperSource | LocalSource]:
        return [source for source in self._sources if not source.answered]

    def _survey(self, banner: str | None) -> Survey:
        stores = [source.store for source in self._sources]
        return Survey(
            devices=tuple(device for store in stores for device in store.devices.values()),
            samples=tuple(
                store.latest[device_id] for store in stores for device_id in store.devices if device_id in store.latest
            ),
            banner=banner,
            arrived={device_id: at for store in stores for device_id, at in store.arrived.items()},
        )


def _has_any(kind: Kind, device_ids: Collection[str]) -> bool:
    return any(device_id.startswith(kind.id_prefixes) for device_id in device_ids)


def _join(sentences: Sequence[str | None]) -> str | None:
    return join_sentences(sentences) or None
