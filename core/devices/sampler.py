"""The devices and their readings, for whoever shows or records them: one object that never waits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from core.devices.device import Survey
from core.devices.helper_source import HelperSource
from core.devices.kinds import KINDS
from core.devices.reader import PROCESSES_S, Options, ReadIntervals
from core.devices.source import HelperTimeouts, LocalSource, ReadingSource

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from core.devices.device import Sample
    from core.devices.kinds import Kind

NAP_S = 0.01  # between two looks of the one call that may wait


class Sampler:
    """All kinds of devices. Kinds that can hang are read in a helper process each.

    Nothing is started before the first poll. `only` are ids of the devices to list and to read, all when
    None; a kind of which none is wanted costs nothing. A GPU that sleeps is listed as asleep, unless it
    must be woken up for an id in `wake` or `only`. Raises `ValueError` for a period of 0 or less.
    """

    def __init__(
        self,
        *,
        kinds: Sequence[Kind] = KINDS,
        only: Collection[str] | None = None,
        wake: Collection[str] = (),
        period_s: float = 1.0,
        patience: HelperTimeouts | None = None,
    ) -> None:
        patience = patience or HelperTimeouts()
        options = Options(
            only=None if only is None else frozenset(only), retry_s=patience.retry_s, wake=frozenset(wake)
        )
        self._pace = ReadIntervals(load=period_s)
        self._feeds = [_feed(kind, options, self._pace, patience) for kind in kinds if _wanted(kind, options)]
        self._surveyed: tuple[object, Survey] = None, Survey()
        """What was known, and the survey that was made of it: most looks find nothing new."""

    @classmethod
    def for_run(cls, device_ids: Collection[str]) -> Self:
        """One for a run on these devices.

        It also reads the other GPUs, where the run is on GPUs: a process of the run on one of them is to be seen.
        """
        isolated = [kind for kind in KINDS if kind.isolated and _named(kind, device_ids)]
        return cls(kinds=isolated, wake=device_ids) if isolated else cls(only=device_ids)

    def poll(self) -> Survey:
        """What is known by now. Never waits for a device; reads those of this process when they are due."""
        now = time.monotonic()
        for feed in self._feeds:
            feed.poll(now)
        banner = _join([feed.banner(now) for feed in self._feeds])
        known = banner, [feed.ledger.version for feed in self._feeds]
        if known != self._surveyed[0]:
            self._surveyed = known, self._survey(banner)
        return self._surveyed[1]

    def new_samples(self) -> list[Sample]:
        """The readings that arrived since the last call, per kind in order of time; for recording."""
        return [sample for feed in self._feeds for sample in feed.ledger.fetch()]

    def set_period(self, period_s: float, *, processes_s: float = PROCESSES_S) -> None:
        """Read utilisation and memory at this period from now on, and process lists at that one."""
        pace = replace(self._pace, load=period_s, processes=processes_s)
        if pace != self._pace:
            self._pace = pace
            for feed in self._feeds:
                feed.set_pace(pace)

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By CPU device, the processes of runs on it: their memory and their descendants' is the device's."""
        for feed in self._feeds:
            if isinstance(feed, LocalSource):
                feed.watch(pids)

    def survey(self, timeout_s: float) -> Survey:
        """Wait until each kind has said what there is, or until the time is over, which is then said."""
        deadline = time.monotonic() + timeout_s
        survey = self.poll()
        while self._silent() and time.monotonic() < deadline:
            time.sleep(NAP_S)
            survey = self.poll()
        now = time.monotonic()
        late = [feed for feed in self._silent() if feed.banner(now) is None]  # the others have said why
        told = [f"{feed.kind.title} devices have not answered within {timeout_s:g} s." for feed in late]
        return replace(survey, banner=_join([survey.banner, *told]))

    def helper_pids(self) -> list[int]:
        """The helper processes that run now: they are no part of any run."""
        return [feed.pid for feed in self._feeds if isinstance(feed, HelperSource) and feed.pid is not None]

    def close(self) -> None:
        """End the helper processes, and wait for them."""
        for feed in self._feeds:
            feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _silent(self) -> list[ReadingSource]:
        return [feed for feed in self._feeds if not feed.answered]

    def _survey(self, banner: str | None) -> Survey:
        ledgers = [feed.ledger for feed in self._feeds]
        return Survey(
            devices=tuple(device for ledger in ledgers for device in ledger.devices.values()),
            samples=tuple(
                ledger.latest[device_id]
                for ledger in ledgers
                for device_id in ledger.devices
                if device_id in ledger.latest
            ),
            banner=banner,
            arrived={device_id: at for ledger in ledgers for device_id, at in ledger.arrived.items()},
        )


def _wanted(kind: Kind, options: Options) -> bool:
    return options.only is None or _named(kind, options.only)


def _named(kind: Kind, device_ids: Collection[str]) -> bool:
    return any(device_id.startswith(kind.id_prefixes) for device_id in device_ids)


def _feed(kind: Kind, options: Options, pace: ReadIntervals, patience: HelperTimeouts) -> ReadingSource:
    return HelperSource(kind, options, pace, patience) if kind.isolated else LocalSource(kind, options, pace)


def _join(sentences: Sequence[str | None]) -> str | None:
    return " ".join(sentence for sentence in sentences if sentence) or None
