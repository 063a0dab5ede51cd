"""Ask several hosts at once: whether they answer, how their clocks differ, and what their devices are."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from core.devices.device import device_here, split_name
from core.hosts.connection import Connection
from core.hosts.exchange import unpack_devices
from core.hosts.failures import HostError
from core.hosts.host_list import load
from core.language import join_sentences, tr, tr_noop
from core.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.devices.device import Device
    from core.hosts.connection import Clock
    from core.hosts.exchange import HostDevices
    from core.hosts.host_list import Host
    from core.hosts.protocol import Hello

CLOCK_TOLERANCE_S = 2.0
"""Seconds of a clock's offset from which on a sentence reports it."""
SET_CLOCK = "timedatectl set-ntp true"


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
        """As the function of this name."""
        return clock_problem(self.host.name, self.clock)


def clock_problem(name: str, clock: Clock | None) -> str:
    """Return a sentence if a host's clock differs by more than the measurement's error; else the empty string."""
    if clock is None or abs(clock.offset_s) - clock.round_trip_s / 2 <= CLOCK_TOLERANCE_S:
        return ""
    sentence = (
        tr_noop("The clock of {name} is {offset} ahead of the one here. Have the network set both: {command}")
        if clock.offset_s > 0
        else tr_noop("The clock of {name} is {offset} behind the one here. Have the network set both: {command}")
    )
    return tr(sentence, name=name, offset=duration(abs(clock.offset_s)), command=SET_CLOCK)


@dataclass(slots=True)
class Inquiry:
    """Asks hosts on a thread each, from its creation on. As a context manager it ends what has not ended.

    `devices`: whether to ask for the devices.
    """

    hosts: Sequence[Host]
    devices: bool
    _unwanted: Event = field(default_factory=Event, init=False)
    _reports: list[HostReport] = field(default_factory=list, init=False)
    _threads: list[Thread] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._reports = [HostReport(host) for host in self.hosts]
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unwanted.set()
        self.reports()

    def _is_wanted(self) -> bool:
        return not self._unwanted.is_set()

    def _ask(self, report: HostReport) -> None:
        try:
            with Connection(report.host, is_wanted=self._is_wanted) as connection:
                self._converse(report, connection)
        except HostError as error:
            report.error = error

    def _converse(self, report: HostReport, connection: Connection) -> None:
        connection.await_hello()
        report.hello = connection.hello
        report.clock = connection.compare_clock()
        if self.devices:
            report.devices = connection.read(unpack_devices, connection.ask("devices"), tr("They are no devices."))


def ask(hosts: Sequence[Host], *, devices: bool) -> list[HostReport]:
    """Ask hosts at once, and return what is known of each. Takes as long as the slowest, and ends within a limit."""
    with Inquiry(hosts, devices) as inquiry:
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
    state = tr(
        "reachable, Trainyard {version}, Python {python}, clock {offset:+.1f} s",
        version=report.hello.version,
        python=report.hello.python,
        offset=report.clock.offset_s,
    )
    return join_sentences([f"{state}.", report.clock_problem]) if report.clock_problem else state


def report_document(report: HostReport) -> dict[str, Any]:
    """Return what is known of a host, as JSON."""
    hello, clock = report.hello, report.clock
    return {
        "name": report.host.name,
        "address": report.host.address,
        "command": report.host.command,
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
