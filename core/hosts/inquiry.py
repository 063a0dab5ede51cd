"""Ask hosts whether they answer, how their clocks differ, and what their devices are: several at once, or one for long.

A host that is watched and stops answering is asked again after a while, then after longer and longer times. Where only
the user can change something, such as a key that is refused, it is asked again when the user wants it: a server may
shut out addresses from which logins fail again and again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import partial
from threading import Event, Thread
from typing import Any

from core.devices.device import Device, Sample, Survey, device_here, sample_here, split_name
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Clock, Connection, Follower, clock_problem, drain
from core.hosts.host_list import Host, load
from core.hosts.protocol import Hello, HostDevices, HostUses, unpack_devices, unpack_readings
from core.language import join_sentences, tr
from core.schema.codec import decode


@dataclass(slots=True)
class HostReport:
    """What is known of a host, as far as it has answered."""

    host: Host
    hello: Hello | None = None
    clock: Clock | None = None
    devices: HostDevices | None = None
    """None if they were not asked for, or were not answered."""
    error: HostError | None = None
    """Why there is no more."""

    @property
    def clock_problem(self) -> str:
        """A sentence if the clock there is off; else the empty string."""
        return clock_problem(self.host.name, self.clock)


class Inquiry(AbstractContextManager["Inquiry"]):
    """Asks hosts on a thread each, from its creation on. As a context manager it ends what has not ended."""

    def __init__(self, hosts: Sequence[Host], *, devices: bool) -> None:
        """`devices`: whether to ask for the devices."""
        self._devices, self._unwanted = devices, Event()
        self._reports = [HostReport(host) for host in hosts]
        self._threads = [Thread(target=self._ask, args=(report,), daemon=True) for report in self._reports]
        for thread in self._threads:
            thread.start()

    def reports(self) -> list[HostReport]:
        """Wait until each host has answered all, or its time is over, and return what is known of each."""
        for thread in self._threads:
            thread.join()
        return self._reports

    @property
    def is_over(self) -> bool:
        """Whether `reports` returns at once."""
        return not any(thread.is_alive() for thread in self._threads)

    def give_up(self) -> None:
        """Let `reports` return soon."""
        self._unwanted.set()

    def __exit__(self, *_: object) -> None:
        self.give_up()
        self.reports()

    def _ask(self, report: HostReport) -> None:
        try:
            with Connection(report.host, is_wanted=lambda: not self._unwanted.is_set()) as connection:
                connection.await_hello()
                report.hello = connection.hello
                report.clock = connection.compare_clock()
                if self._devices:
                    found = connection.ask("devices")
                    report.devices = connection.read(unpack_devices, found, tr("They are no devices."))
        except HostError as error:
            report.error = error


def ask(hosts: Sequence[Host], *, devices: bool) -> list[HostReport]:
    """Ask hosts at once, and return what is known of each. Takes as long as the slowest, and ends within a limit."""
    with Inquiry(hosts, devices=devices) as inquiry:
        return inquiry.reports()


def devices_of(names: Iterable[str]) -> list[Device]:
    """Return the devices of all hosts of which some device is named, as they are named here.

    Raises `ValueError` for a host that is not in the list, and `HostError` for one that cannot be asked.
    """
    listed, wanted = load(), {found[0].lower(): found[0] for name in names if (found := split_name(name))}
    hosts = [host for name in wanted.values() if (host := listed.find(name))]
    if len(hosts) < len(wanted):
        missing = next(name for name in wanted.values() if listed.find(name) is None)
        raise ValueError(tr("There is no host {name}. Add it: trainyard hosts add ADDRESS --name {name}", name=missing))
    devices = []
    for report in ask(hosts, devices=True):
        if report.error is not None:
            raise report.error
        assert report.devices is not None
        devices += [device_here(report.host.name, each) for each in report.devices.devices]
    return devices


def state_words(report: HostReport) -> str:
    """Return whether a host answers, in words: version and clock, or why it does not."""
    if report.error is not None or report.hello is None or report.clock is None:
        return str(report.error)
    state = tr("reachable, Trainyard {version}, Python {python}, clock {offset:+.1f} s", version=report.hello.version,
               python=report.hello.python, offset=report.clock.offset_s)
    return join_sentences([f"{state}.", report.clock_problem]) if report.clock_problem else state


def report_document(report: HostReport) -> dict[str, Any]:
    hello, clock = report.hello, report.clock
    return {
        **asdict(report.host),
        "state": "reachable" if report.error is None else "not reachable",
        "failure": None if report.error is None else report.error.failure.value,
        "problem": (report.clock_problem or None) if report.error is None else str(report.error),
        "version": hello and hello.version,
        "protocol": hello and hello.protocol,
        "python": hello and hello.python,
        "user": hello and hello.user,
        "host": hello and hello.host,
        "boot": hello and hello.identity.boot,
        "runs": hello and hello.runs,
        "clock_offset_s": clock and clock.offset_s,
        "round_trip_s": clock and clock.round_trip_s,
    }


PERIOD_S = 1.0
"""Seconds between two readings of a device."""
USES_PERIOD_S = 5.0
"""Seconds between two looks at what uses the devices there."""
POLL_S = 0.25
"""Longest wait for something to arrive: a watch that is ended ends within this time."""
CLOCK_PERIOD_S = 300.0
"""Seconds between two measurements of the clock there."""
FIRST_WAIT_S, MAX_WAIT_S = 2.0, 60.0
"""Seconds until a host is asked again, after the first failure and at most. Each failure doubles them."""
STEADY_S = 30.0
"""Seconds of a connection after which its end counts as a first failure."""
MAX_SAMPLES = 10_000
"""Samples that are kept until they are fetched."""
NO_USES = HostUses(by_device={})
PASSING = frozenset({
    Failure.UNKNOWN_NAME, Failure.UNREACHABLE, Failure.CLOSED_PORT, Failure.SSH, Failure.NO_ANSWER, Failure.CUT,
    Failure.REFUSED,
})
"""Failures that may pass by themselves: a network that comes back, a machine that is switched on."""


class Phase(Enum):
    """What a host does at the moment."""

    CONNECTING = "connecting"
    """It is asked, and has not answered yet."""
    REACHABLE = "reachable"
    NOT_REACHABLE = "not reachable"
    """It is asked again later, or when the user wants it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What is known of a host."""

    host: Host
    phase: Phase = Phase.CONNECTING
    error: HostError | None = None
    """Why it is not reachable."""
    hello: Hello | None = None
    clock: Clock | None = None
    survey: Survey = field(default_factory=Survey)
    """Its devices, whose ids and labels name the host, and readings with times by the clock here. The devices of a host
    that is not reachable any more are the last ones that are known, without readings."""
    uses: HostUses = NO_USES
    """What uses the devices, by their ids there."""

    @property
    def clock_problem(self) -> str:
        """A sentence if the clock there is off; else the empty string."""
        return clock_problem(self.host.name, self.clock)


class HostWatch:
    """Follows one host between `begin` and `end`. Its methods do not block, except `join`."""

    def __init__(self, host: Host) -> None:
        self.state = HostState(host=host)
        """Replaced as a whole by the thread."""
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._taken_at: dict[str, float] = {}
        """By device, the time of the sample that was fetched last."""
        self._follower: Follower | None = None
        self._ending: list[Follower] = []

    @property
    def host(self) -> Host:
        return self.state.host

    def begin(self) -> None:
        """Ask the host from now on."""
        if self._follower is None:
            survey = Survey(devices=self.state.survey.devices)  # the samples may be hours old
            phase = Phase.CONNECTING if self.state.error is None else self.state.phase
            self.state = replace(self.state, survey=survey, phase=phase)
            self._follower = Follower(
                self.host, self._converse, self._note, waits=(FIRST_WAIT_S, MAX_WAIT_S), steady_s=STEADY_S
            )
            self._follower.start()

    def end(self) -> None:
        """Stop asking the host. Its last known state stays."""
        if self._follower is not None:
            self._follower.end()
            self._ending = [each for each in self._ending if each.is_alive()]
            self._ending.append(self._follower)
            self._follower = None

    def retry(self) -> None:
        """Ask a host that is not reachable again, now."""
        if self._follower is not None and self.state.phase is Phase.NOT_REACHABLE:
            self.state = replace(self.state, phase=Phase.CONNECTING)
            self._follower.retry()

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, each later than those before of the same device.

        The clock there may be set back while the host is followed.
        """
        fresh = []
        for sample in drain(self._samples):
            if sample.time > self._taken_at.get(sample.device_id, float("-inf")):
                self._taken_at[sample.device_id] = sample.time
                fresh.append(sample)
        return fresh

    def join(self, timeout_s: float) -> None:
        """Wait until nothing is left of the connection, up to `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        for each in filter(Follower.is_alive, self._ending):
            each.join(max(0.0, deadline - time.monotonic()))

    # -- the thread ------------------------------------------------------------------------------

    def _note(self, error: HostError | None) -> bool:
        if error is None:
            return True
        known, survey = self.state, Survey(devices=self.state.survey.devices)
        self.state = replace(known, phase=Phase.NOT_REACHABLE, error=error, clock=None, survey=survey, uses=NO_USES)
        return error.failure in PASSING

    def _converse(self, connection: Connection, clock: Clock) -> None:
        measured_at = time.monotonic()
        self._change(connection, phase=Phase.REACHABLE, error=None, hello=connection.hello, clock=clock)
        stream = connection.request("readings", period_s=PERIOD_S, uses_period_s=USES_PERIOD_S)
        stream.kept, readings = self._samples, _Readings(self.host.name)
        while connection.is_wanted():
            connection.poll(POLL_S)
            if stream.done:
                connection.result(stream)
                connection.fail_at(tr("Its readings have ended."))
            unpack = partial(self._unpack, connection, readings, clock.offset_s)
            connection.take(stream, unpack, tr("They are no devices."))
            if time.monotonic() - measured_at > CLOCK_PERIOD_S:
                clock, measured_at = connection.compare_clock(), time.monotonic()
                self._change(connection, clock=clock)

    def _unpack(self, connection: Connection, readings: _Readings, offset_s: float, item: Any) -> list[Sample]:  # noqa: ANN401 (JSON)
        """Return the samples of an item of the stream. Raises `ValueError` for nonsense."""
        fresh = readings.add(item, offset_s)
        self._change(connection, survey=readings.survey)
        if "uses" in item:
            self._change(connection, uses=decode(HostUses, item))
        return fresh

    def _change(self, connection: Connection, **changes: Any) -> None:  # noqa: ANN401 (fields of `HostState`)
        if connection.is_wanted():
            self.state = replace(self.state, **changes)


class _Readings:
    """Makes surveys of the readings that arrive, each of which leaves out what has not changed since the last."""

    def __init__(self, host: str) -> None:
        self.survey = Survey()
        self._host = host
        self._sent: Sequence[Sample] = ()
        """The latest samples as they were sent."""
        self._known: dict[str, tuple[float, Sample]] = {}
        """By the ids there, the latest samples under the names here, and when they were taken by the clock there."""

    def add(self, item: object, offset_s: float) -> list[Sample]:
        """Take an item and return the samples that are newer than those before. Raises `ValueError` for nonsense."""
        answer, now, before = unpack_readings(item, self._sent), time.monotonic(), self._known
        self._sent, self._known, fresh = answer.samples, {}, []
        arrived = {}
        for sample in answer.samples:
            known = before.get(sample.device_id)
            is_new = known is None or known[0] != sample.time
            if known is None or is_new:
                known = sample.time, sample_here(self._host, sample, offset_s)
                fresh.append(known[1])
            self._known[sample.device_id] = known
            name = known[1].device_id
            arrived[name] = now if is_new else self.survey.arrived.get(name, now)
        devices = None if answer.devices is None else tuple(device_here(self._host, each) for each in answer.devices)
        self.survey = Survey(
            devices=self.survey.devices if devices is None else devices,
            samples=tuple(sample for _, sample in self._known.values()), banner=answer.banner, arrived=arrived,
        )
        return fresh
