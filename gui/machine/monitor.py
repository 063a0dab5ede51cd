"""The newest readings of all devices: those of this machine and of the hosts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Protocol

from core.devices.device import Sample, Survey, full_name, split_name
from core.devices.reader import PROCESSES_S
from core.devices.sampler import Sampler
from core.series.run_series import RunSeries
from core.system.folders import HOSTS_FILE, config_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from core.hosts.inquiry import HostState, HostWatch


LOOK_S = 1.0
"""Seconds between two looks whether the file of hosts has changed, as `trainyard hosts` may do meanwhile."""
END_S = 2.0
"""Longest wait at the end for the connections to be closed."""


class HostMonitor:
    """What is known of the hosts. `poll` never waits. Without hosts, nothing of `core.hosts` is loaded."""

    def __init__(self, *, is_here: bool = True) -> None:
        """`is_here`: whether the window shows this machine; beside the devices of a host, no others are shown."""
        self._is_here = is_here
        self.states: tuple[HostState, ...] = ()
        """In the order of the user's list."""
        self.surveys: tuple[Survey, ...] = ()
        """By host, its devices and readings; devices that cannot be used now are blocked."""
        self.problem = ""
        """What is wrong with the list of hosts; the empty string if nothing is."""
        self.is_urgent = False
        """Whether the last poll has found something that the user waits for, other than readings."""
        self._watches: list[HostWatch] = []
        self._removed: list[HostWatch] = []
        self._wanted: frozenset[str] = frozenset()
        self._seen: object = None
        self._looked_at = float("-inf")
        self._is_asking = False

    def poll(self) -> None:
        """Take what has arrived, and notice a change of the list."""
        if self._is_here and time.monotonic() - self._looked_at >= LOOK_S:
            self._look()
        states = tuple(watch.state for watch in self._watches)
        if len(states) == len(self.states) and all(map(is_, states, self.states)):
            self.is_urgent = False
            return
        self.is_urgent = list(map(_lasting, states)) != list(map(_lasting, self.states))
        self.states = states
        self._survey()

    def want(self, devices: Collection[str]) -> None:
        """Keep these devices in the surveys even while their hosts are silent."""
        if self._wanted != {*devices}:
            self._wanted = frozenset(devices)
            self._survey()

    def held_by(self) -> dict[str, str]:
        """Return by device the program that uses most of it, as the hosts tell it."""
        return {
            full_name(state.host.name, device): use.program
            for state in self.states
            for device, use in state.uses.by_device.items()
            if use.program
        }

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, per device in order of time."""
        return [sample for watch in self._watches for sample in watch.new_samples()]

    def ask(self, *, asking: bool) -> None:
        """Begin or stop to ask the hosts. Their last readings stay."""
        if asking is not self._is_asking:
            self._is_asking = asking
            for watch in self._watches:
                if asking:
                    watch.begin()
                else:
                    watch.end()

    def retry(self, name: str = "") -> None:
        """Ask a host that is not reachable again now; without a name, all of them."""
        for watch in self._watches:
            if not name or watch.host.name == name:
                watch.retry()

    def look_soon(self) -> None:
        """Read the list of hosts at the next poll if it has changed."""
        self._looked_at = float("-inf")

    def close(self) -> None:
        """Ask no more, and wait until nothing is left of the connections."""
        self.ask(asking=False)
        deadline = time.monotonic() + END_S
        for watch in (*self._watches, *self._removed):
            watch.join(max(0.0, deadline - time.monotonic()))

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        seen = None
        with contextlib.suppress(OSError):
            stat = (config_folder() / HOSTS_FILE).stat()
            seen = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if seen != self._seen:
            self._seen = seen
            self._read()

    def _read(self) -> None:
        """Follow the hosts of the list; those that are in it as before go on."""
        from core.hosts.host_list import load  # only where there is, or was, a host
        from core.hosts.inquiry import HostWatch

        listed = load()
        self.problem = listed.problem
        known = {watch.host: watch for watch in self._watches}
        for host in known.keys() - {*listed.hosts}:
            known[host].end()
            self._removed.append(known[host])
        new = {host: HostWatch(host) for host in listed.hosts if host not in known}
        self._watches = [{**known, **new}[host] for host in listed.hosts]
        for watch in new.values() if self._is_asking else ():
            watch.begin()

    def _survey(self) -> None:
        if not self.states:
            self.surveys = ()
            return
        from gui.machine.host_devices import usable_survey  # likewise

        hosts = {device: parts[0] for device in sorted(self._wanted) if (parts := split_name(device))}
        self.surveys = tuple(
            usable_survey(state, [device for device, host in hosts.items() if host == state.host.name])
            for state in self.states
        )


def _lasting(state: HostState) -> object:
    """Return a state without what changes by itself all the time."""
    return replace(state, clock=None, survey=Survey(devices=state.survey.devices, banner=state.survey.banner))


KEPT_S = 3600.0
"""Seconds of the history, which goes on while a run is shown: some megabytes for 8 GPUs."""
SLACK_S = 120.0
"""Seconds by which the history may be longer than `KEPT_S` before it is cut."""
WATCHED_PERIOD_S = 0.5
UNWATCHED_PERIOD_S = 1.0
CLOSE_PROCESSES_S = 0.5
"""Seconds between two lists of processes just after a run, when memory is being released."""
NEWS_S = 0.9
"""Seconds between two polls that report news: whatever shows readings is painted then, and no eye follows faster."""
STALE_PERIODS, MIN_STALE_S = 3, 3.0
"""Readings older than both are out of date: a number of periods, and seconds."""
HOST_STALE_S = 6.0
"""Seconds after which readings of a host are out of date."""


class ReadingsSource(Protocol):
    """Where readings come from: a `Sampler`, or the connection to a host."""

    def poll(self) -> Survey:
        """Return what is known now."""

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call."""

    def set_period(self, period_s: float, *, processes_s: float = PROCESSES_S) -> None:
        """Read every `period_s` seconds from now on, and the lists of processes every `processes_s`."""

    def close(self) -> None:
        """End what reads."""


class DeviceMonitor:
    """Live readings. `poll` never blocks; the helper processes start with the first poll."""

    def __init__(self, sampler: ReadingsSource | None = None, hosts: HostMonitor | None = None) -> None:
        self.sampler: ReadingsSource = sampler or Sampler(period_s=UNWATCHED_PERIOD_S)
        self.hosts = hosts or HostMonitor()
        self.survey = Survey()
        """The devices of this machine."""
        self.series = RunSeries()
        """The readings of the last hour or so."""
        self.has_past = False
        """Whether what earlier windows have read is in them, or cannot be."""
        self.stale_age_s: dict[str, int] = {}
        """By device id, the age in seconds of readings that are out of date."""
        self._period_s, self._processes_s = UNWATCHED_PERIOD_S, PROCESSES_S
        self._news = False
        self._reported_at = float("-inf")

    def look(self) -> None:
        """Take the latest readings only: the history, which `poll` adds to, needs numpy, which takes time to load."""
        self.survey = self.sampler.poll()

    def poll(self) -> bool:
        """Take new readings; return whether there are any, at most once in `NEWS_S`."""
        survey = self.sampler.poll()
        samples = self.sampler.new_samples()
        self.hosts.poll()
        self._record([*samples, *self.hosts.new_samples()])
        stale_age_s = self._too_old(survey, time.monotonic())
        urgent = survey.devices != self.survey.devices or survey.banner != self.survey.banner or self.hosts.is_urgent
        # Readings of hosts are shown with the next ones of this machine: else each host would have all shown again.
        self._news |= bool(samples) or urgent or stale_age_s != self.stale_age_s
        self.survey, self.stale_age_s = survey, stale_age_s
        if not self._news or (not urgent and time.monotonic() - self._reported_at < NEWS_S):
            return False
        self._news, self._reported_at = False, time.monotonic()
        return True

    def take_past(self, past: RunSeries | None) -> None:
        """Have what earlier windows have read in the place of the few readings so far; None: there is nothing."""
        self.has_past = True
        if past is not None:
            self.series.replace_by(past)

    @property
    def all_machines(self) -> Survey:
        """The devices of this machine, then those of the hosts, and their readings."""
        surveys = (self.survey, *self.hosts.surveys)
        if len(surveys) == 1:
            return self.survey
        return replace(
            self.survey,
            devices=tuple(device for each in surveys for device in each.devices),
            samples=tuple(sample for each in surveys for sample in each.samples),
        )

    def watch_closely(self, closely: bool) -> None:
        """Read more often while the window can be seen, and ask the hosts only then."""
        self.hosts.ask(asking=closely)
        self._period_s = WATCHED_PERIOD_S if closely else UNWATCHED_PERIOD_S
        self.sampler.set_period(self._period_s, processes_s=self._processes_s)

    def watch_processes(self, closely: bool) -> None:
        """List processes twice a second, or as usual. Listing takes the driver's lock, which slows the training."""
        processes_s = CLOSE_PROCESSES_S if closely else PROCESSES_S
        if processes_s == self._processes_s:
            return
        self._processes_s = processes_s
        self.sampler.set_period(self._period_s, processes_s=self._processes_s)

    def close(self) -> None:
        """End the helper processes and the connections to hosts."""
        self.hosts.ask(asking=False)  # they end at the same time
        self.sampler.close()
        self.hosts.close()

    def _too_old(self, survey: Survey, now: float) -> dict[str, int]:
        found = _too_old(survey, now, max(STALE_PERIODS * self._period_s, MIN_STALE_S))
        for each in self.hosts.surveys:
            found |= _too_old(each, now, HOST_STALE_S)
        return found

    def _record(self, samples: Iterable[Sample]) -> None:
        ordered = sorted(samples, key=lambda sample: sample.time)
        for sample in ordered:
            self.series.add_reading(
                sample.device_id, sample.time, sample.utilisation_percent, sample.memory_used_bytes,
                (sample.temperature_celsius, sample.power_watts, sample.sm_clock_mhz, sample.slowdowns),
            )
        newest = ordered[-1].time if ordered else 0.0
        if self.series.started is not None and newest - self.series.started > KEPT_S + SLACK_S:
            trim(self.series, newest - KEPT_S)


def _too_old(survey: Survey, now: float, limit_s: float) -> dict[str, int]:
    """Return by device id the age in seconds of readings that are older than the limit."""
    if now - min(survey.arrived.values(), default=now) <= limit_s:
        return {}
    ages = {sample.device_id: survey.age_s(sample.device_id, now) for sample in survey.samples if not sample.lost}
    return {device: int(age) for device, age in ages.items() if age is not None and age > limit_s}


def trim(run_series: RunSeries, since: float) -> None:
    """Drop the readings before `since` (unix seconds), and devices that have no later ones."""
    for readings in run_series.every_reading:
        for device, series in list(readings.items()):
            series.drop_before(since)
            if not len(series):
                del readings[device]
    for device, slowdowns in run_series.slowdowns.items():
        run_series.slowdowns[device] = [each for each in slowdowns if each.until >= since]
    run_series.started = since
    run_series.version += 1
