"""The devices of this machine and their readings, for the window and for the supervisor.

The readings of a kind of device come from this process, or from a helper process that is kept alive.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf

from core.devices.device import ASLEEP_PREFIX, KINDS, Device, Kind, Sample, Survey
from core.devices.helper import ALIVE, HelperAnswer, from_line, intervals_line, start_command
from core.devices.reader import PROCESSES_S, LocalReader, Options, ReadIntervals, ReadSchedule
from core.language import join_sentences, tr, tr_noop
from core.system.helper_process import HelperProcess

MAX_SAMPLES = 10_000
"""Samples that are kept until they are fetched: a window that only draws never fetches any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperTimeouts:
    """Limits of time for a helper process, in seconds."""

    stale_s: float = 3.0
    """Readings older than their interval and this are reported as old."""
    hang_s: float = 15.0
    """A helper without a sign of life for longer than the interval and this is terminated: one call of the driver
    took so long. Calls of seconds do happen, and a fresh helper would only wait for them again."""
    start_s: float = 60.0
    """The limit of `hang_s` for the first answer: a driver that nothing uses takes seconds per GPU to wake up."""
    retry_s: float = 10.0
    """Time after which a driver or a device that could not be read is tried again."""
    backoff_s: float = 0.5
    """Time before the first restart of a helper that failed; doubled with each further one, up to `retry_s`."""
    notice_s: float = 20.0
    """How long a restart is mentioned, and how long a helper must run for its failures to be forgotten."""


class ReadingsStore:
    """The devices of one kind, their latest samples, and the samples that were not fetched yet.

    Times are those of the clock that the caller uses, in seconds.
    """

    def __init__(self) -> None:
        self.devices: dict[str, Device] = {}
        self.latest: dict[str, Sample] = {}
        self.arrived: dict[str, float] = {}
        """By device id, when its latest sample was stored."""
        self.banner: str | None = None
        self.version = 0
        """Rises with every answer."""
        self._aliases: dict[str, str] = {}
        """By the id of a sleeping GPU, the id that it had while it was awake."""
        self._unfetched: deque[Sample] = deque(maxlen=MAX_SAMPLES)

    def add(self, answer: HelperAnswer, now: float) -> None:
        """Store an answer. A device that was listed once stays, and is lost if it is not listed now."""
        self.version += 1
        if answer.devices is not None:
            self._forget_woken(answer.devices)
            self._aliases = self._asleep_by_now(answer.devices)
            listed = {device.id: device for device in answer.devices if device.id not in self._aliases}
            present = {*listed, *self._aliases.values()}
            self._add((_gone(device) for device in self.devices.values() if device.id not in present), now)
            self.devices |= listed
        known = ((each, self._aliases.get(each.device_id)) for each in answer.samples)
        self._add((each if alias is None else replace(each, device_id=alias) for each, alias in known), now)
        self.banner = answer.banner

    def fetch(self) -> list[Sample]:
        """Return the samples that were stored since the last call."""
        samples = list(self._unfetched)
        self._unfetched.clear()
        return samples

    def _forget_woken(self, devices: Iterable[Device]) -> None:
        """Remove the rows of GPUs that were asleep and now have their own id."""
        awake = {device.pci_bus_id for device in devices if not device.id.startswith(ASLEEP_PREFIX)}
        for device in list(self.devices.values()):
            if device.id.startswith(ASLEEP_PREFIX) and device.pci_bus_id in awake:
                del self.devices[device.id]
                self.latest.pop(device.id, None)
                self.arrived.pop(device.id, None)

    def _asleep_by_now(self, devices: Iterable[Device]) -> dict[str, str]:
        """Return the aliases of GPUs that sleep and were awake before, such as before a restart of the helper."""
        awake = {
            device.pci_bus_id: device.id
            for device in self.devices.values()
            if device.pci_bus_id and not device.id.startswith(ASLEEP_PREFIX) and not device.is_mig
        }
        asleep = [device for device in devices if device.id.startswith(ASLEEP_PREFIX)]
        return {device.id: awake[device.pci_bus_id] for device in asleep if device.pci_bus_id in awake}

    def _add(self, samples: Iterable[Sample], now: float) -> None:
        for sample in samples:
            self.latest[sample.device_id] = sample
            self.arrived[sample.device_id] = now
            self._unfetched.append(sample)


def _gone(device: Device) -> Sample:
    lost = tr("{label} is not listed by its driver any more.", label=device.label)
    return Sample(device_id=device.id, time=time.time(), lost=lost)


class LocalSource:
    """Reads in this process. In all methods `now` is the time of one steady clock, in seconds."""

    answered = True

    def __init__(self, kind: Kind, options: Options, intervals: ReadIntervals, now: float) -> None:
        self.kind = kind
        self.store = ReadingsStore()
        self._schedule = ReadSchedule(intervals)
        self._reader: LocalReader | None = None
        try:
            self._reader = import_module(kind.target).open_reader(options)
        except ValueError as error:  # a setting of the user's: the window must come up and show it
            self.store.add(HelperAnswer(banner=str(error)), now)
        else:
            self.store.add(HelperAnswer(devices=self._reader.devices), now)

    def poll(self, now: float) -> None:
        """Read if a reading is due."""
        if self._reader is not None and (tiers := self._schedule.take(now)):
            samples = tuple(self._reader.read(time.time(), tiers))
            self.store.add(HelperAnswer(samples=samples, banner=self._reader.banner), now)

    def banner(self, now: float) -> str | None:  # noqa: ARG002 (a local reading is never old)
        """Return the reader's banner, or why there is no reader."""
        return self.store.banner

    def set_intervals(self, intervals: ReadIntervals) -> None:
        self._schedule.intervals = intervals

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, set the processes whose memory is read."""
        if self._reader is not None:
            self._reader.watch(pids)

    def close(self) -> None:
        """Do nothing: no process was started."""


class HelperSource:
    """Reads in a helper process, restarts it when it fails or hangs, and reports how old the readings are.

    No method waits but `close`. `now` is the time of one steady clock, in seconds.
    """

    def __init__(self, kind: Kind, options: Options, intervals: ReadIntervals, timeouts: HelperTimeouts) -> None:
        self.kind = kind
        self.store = ReadingsStore()
        self.answered = False
        """Whether any helper has answered."""
        self._options, self._intervals, self._timeouts = options, intervals, timeouts
        self._process: HelperProcess | None = None
        self._start_at = -inf
        self._started_at = 0.0
        self._waiting_since: float | None = None
        """Time of the last answer, or of the start if no answer came since; None if none is expected."""
        self._previous: Sequence[Sample] = ()
        """The samples of this helper's last answer, to which its next one refers."""
        self._alive_at = 0.0
        """Time of the last sign of life, or of the start."""
        self._process_answered = False
        self._hung = False
        self._absent = False
        self._failures = 0
        self._note: str | None = None
        self._noted_at = 0.0

    def poll(self, now: float) -> None:
        """Store what the helper wrote; start it or terminate it if that is due."""
        if self._process is not None:
            self._follow(self._process, now)
        elif now >= self._start_at:
            self._start(now)

    def banner(self, now: float) -> str | None:
        """Return the driver's error, the helper's failure and the age of the readings, as far as there are any."""
        if self._note is not None and now - self._noted_at > self._timeouts.notice_s and self._process_answered:
            self._note = None
        return join_sentences([self.store.banner, self._note, self._age(now)]) or None

    def set_intervals(self, intervals: ReadIntervals) -> None:
        if intervals != self._intervals and self._process is not None:
            self._process.send(intervals_line(intervals))  # if it cannot take the line, it hangs or has ended
        self._intervals = intervals

    def close(self) -> None:
        """Terminate the helper and wait for its end. No other is started."""
        self._start_at = inf
        if self._process is not None:
            self._process.close(polite=True)
            self._process = None

    def _start(self, now: float) -> None:
        self._started_at = self._alive_at = now
        self._process_answered = self._hung = False
        self._previous = ()
        if self._waiting_since is None:
            self._waiting_since = now
        command = start_command(self.kind.target, self._options, self._intervals)
        try:
            self._process = HelperProcess(command, stdin=True)
        except OSError as error:
            self._fail(tr("could not be started ({strerror})", strerror=error.strerror), now)

    def _follow(self, process: HelperProcess, now: float) -> None:
        ending = process.ending()  # checked before reading, so that everything it wrote is read
        try:
            for line in process.read_lines():
                self._alive_at = now
                if line != ALIVE:
                    self._take(from_line(line, self._previous), now)
        except (ValueError, LookupError, TypeError):
            process.kill()  # something else writes between the answers; a fresh helper is the cure
        if ending is not None:
            self._end(process, ending, now)
            return
        allowed_s = self._timeouts.hang_s if self._process_answered else self._timeouts.start_s
        if not self._hung and now - self._alive_at > self._intervals.load + allowed_s:
            self._hung = True
            process.kill()  # a later poll finds that it has ended: a process inside the driver may linger

    def _take(self, answer: HelperAnswer, now: float) -> None:
        self._previous = answer.samples
        self.store.add(answer, now)
        self._absent = answer.absent
        self.answered = self._process_answered = True
        self._waiting_since = now

    def _end(self, process: HelperProcess, ending: str, now: float) -> None:
        process.close()
        self._process = None
        if self._hung:
            self._fail(tr("did not answer and was terminated"), now)
        elif ending:
            self._fail(tr("ended with {ending}", ending=ending), now)
        else:  # it has answered all there is
            self._waiting_since = None
            self._start_at = inf if self._absent else now + self._timeouts.retry_s

    def _fail(self, what: str, now: float) -> None:
        sound = now - self._started_at > self._timeouts.notice_s
        self._failures = 1 if sound else self._failures + 1
        backoff_s = min(self._timeouts.backoff_s * 2 ** (self._failures - 1), self._timeouts.retry_s)
        self._start_at = now + backoff_s
        self._note = tr(
            "The helper that reads {kind} devices {what}; it is started again.", kind=self.kind.title, what=what
        )
        self._noted_at = now

    def _age(self, now: float) -> str | None:
        if self._waiting_since is None:
            return None
        silent_s = now - self._waiting_since
        if silent_s <= self._intervals.load + self._timeouts.stale_s:
            return None
        if not self.store.latest:
            sentence = tr_noop("{kind} devices have not answered for {seconds:.0f} s.")
        elif self._alive_at > self._waiting_since:
            sentence = tr_noop("{kind} devices answer slowly: their readings are {seconds:.0f} s old.")
        else:
            sentence = tr_noop("{kind} devices do not answer: their readings are {seconds:.0f} s old.")
        return tr(sentence, kind=self.kind.title, seconds=silent_s)


HEALTH_PER_PROCESSES = 12
POLL_S = 0.01
"""Seconds between two polls in `Sampler.survey`."""


class Sampler(AbstractContextManager["Sampler"]):
    """Reads all kinds of devices; kinds whose driver can hang are read in a helper process each.

    No helper is started before the first poll. `only` are the ids of the devices to list and read, None for all; a
    kind without a wanted device costs nothing. A sleeping GPU is listed as asleep, unless it must be woken up for an
    id in `wake` or `only`. `clock` gives seconds and never goes back. Raises `ValueError` if `period_s` is not above 0.
    """

    def __init__(
        self, *, kinds: Sequence[Kind] = KINDS, only: Collection[str] | None = None, wake: Collection[str] = (),
        period_s: float = 1.0, timeouts: HelperTimeouts | None = None, clock: Callable[[], float] = time.monotonic,
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
    def for_run(cls, device_ids: Collection[str]) -> Sampler:
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
        """Read utilisation and memory every `period_s` seconds from now on, and process lists every `processes_s`.

        The health is read a twelfth as often as the lists.
        """
        health_s = processes_s * HEALTH_PER_PROCESSES
        intervals = replace(self._intervals, load=period_s, processes=processes_s, health=health_s)
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
            tr("{kind} devices have not answered within {seconds:g} s.", kind=source.kind.title, seconds=timeout_s)
            for source in late
        ]
        return replace(survey, banner=_join([survey.banner, *sentences]))

    def close(self) -> None:
        """Terminate the helper processes and wait for their end."""
        for source in self._sources:
            source.close()

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
