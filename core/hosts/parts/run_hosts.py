"""All other machines of a run: connect, check, divide the ranks, start, follow, and tidy up."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from core.devices.device import Device, device_here, devices_here, full_name, own_id, split_name
from core.errors import RunError
from core.hosts import host_list
from core.hosts.connection import Clock, clock_problem
from core.hosts.parts.meeting import HERE, Meeting
from core.hosts.parts.part_link import PartLink, ask_all
from core.hosts.parts.workload import workload_of
from core.hosts.protocol import HostDevices
from core.language import join_sentences, tr
from core.runs.directory import GRACE_S, Part
from core.runs.facts import RunFacts
from core.schema.event_kinds import ClockOffset, Notice, Record, Release, Verdict
from core.schema.events import RecordError, Tail
from core.schema.spec import RankAssignment, RunSpec
from core.supervisor.companion import Companion
from core.supervisor.workers import Worker, WorkerGroup


class RemoteWorker(Worker):
    """A worker of a part. Signals become requests to the supervisor there, which escalates by itself."""

    def __init__(self, assignment: RankAssignment, tail: Tail, link: PartLink) -> None:
        """`assignment`: with the ids of devices as the run has them."""
        super().__init__(assignment, None, None, tail)
        self._link = link

    def poll_exit(self) -> int | None:
        """Return its exit code; None while it runs, or while its last events have not arrived."""
        found = self._link.exit_of(self.assignment.rank)
        if found is None:
            return None
        code, self.signalled = found  # whether it was signalled is what the supervisor there says
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Have it stopped by its supervisor; SIGKILL forces that."""
        self._link.request("stop")
        if number is signal.SIGKILL:
            self.killed_at = self.killed_at or time.monotonic()
            self._link.request("force")


GRACE_VARIABLE = "TRAINYARD_HOST_GRACE_S"
"""The variable with the seconds for which a run goes on without a connection to one of its machines."""
FINISH_S = 30.0
"""Longest wait for the end of the parts, beside that for the memory of their devices."""
POLL_S = 0.05


class RunHosts(Companion):
    """The other machines of a run."""

    def __init__(self, run_dir: Path, spec: RunSpec) -> None:
        self._run_dir, self._spec = run_dir, spec
        self._wanted: dict[str, list[str]] = {}
        for name in spec.devices:
            if found := split_name(name):
                self._wanted.setdefault(found[0], []).append(found[1])
        self._links: dict[str, PartLink] = {}
        self._devices: dict[str, Device] = {}
        """By id in the run, the devices of the other machines, with their ids there."""
        self._assignments: dict[str, list[RankAssignment]] = {}
        self._meeting: Meeting | None = None

    # -- before the start ------------------------------------------------------------------------

    def find(self, devices: Sequence[Device], record: Callable[[Record], None], *, resumes: bool) -> Sequence[Device]:  # noqa: ARG002
        """Connect to all machines, check them, and return their devices with their ids in the run. Raises `RunError`.

        Whatever can be known before something trains is checked here.
        """
        self._write, self._resumes = record, resumes
        self._workload = workload_of(self._spec)
        if not devices_here(self._spec.devices):
            raise RunError(tr(
                "A run over several machines needs a device of this one, where its checkpoints are kept. Choose "
                "one of this machine, or start the run there: trainyard --host {host}", host=next(iter(self._wanted)),
            ))
        known = host_list.load()
        for name in self._wanted:
            host = known.find(name)
            if host is None:
                raise RunError(tr("There is no host {name}. Add it: trainyard hosts add ADDRESS --name {name}",
                                  name=name))
            self._links[name] = PartLink(host, self._run_dir)
        for name, offset_s in ask_all(self._links, lambda link: link.meet()).items():
            self._check_clock(self._links[name].host.name, offset_s)
        for name, found in ask_all(self._links, lambda link: link.devices()).items():
            self._find_devices(name, found)
        uses_gpus = any(each.kind != "cpu" for each in self._devices.values())
        self._workload.check(self._links, uses_gpus=uses_gpus, write=self._write)
        return [device_here((split_name(name) or ("",))[0], device) for name, device in self._devices.items()]

    def _check_clock(self, name: str, offset_s: float) -> None:
        self._write(ClockOffset(host=name, offset_s=offset_s))
        if problem := clock_problem(name, Clock(offset_s=offset_s, round_trip_s=0.0)):
            self._write(Notice(text=join_sentences([problem, tr("Times of {name} are corrected by it.", name=name)])))

    def _find_devices(self, name: str, found: HostDevices) -> None:
        by_id = {device.id: device for device in found.devices}
        for wanted in self._wanted[name]:
            device = by_id.get(wanted)
            if device is None:
                raise RunError(tr("{host} has no device {device} any more. Its devices: {names}.", host=name,
                                  device=wanted, names=", ".join(by_id) or "-"))
            if device.blocked:
                raise RunError(tr("{name}: {reason}", name=name, reason=device.blocked))
            self._devices[full_name(name, wanted)] = device
        self._links[name].reserve([by_id[wanted] for wanted in self._wanted[name]])

    # -- ranks -----------------------------------------------------------------------------------

    def assign(self, assignments: Sequence[RankAssignment]) -> Sequence[RankAssignment]:
        """Divide the ranks over the machines; return those of this one. Raises `RunError` if they cannot meet."""
        hosts = [_host_of(each) for each in assignments]
        self._meeting = Meeting(self._links, self._write)
        interfaces = self._meeting.interfaces
        numbers = {name: number for number, name in enumerate(interfaces)}
        addresses: tuple[str, ...] = ()
        if self._workload.needs_addresses:
            kept = {name: iter(each) for name, each in self._meeting.keep_ports(Counter(hosts)).items()}
            addresses = tuple(next(kept[host]) for host in hosts)
        own: list[RankAssignment] = []
        for each, host in zip(assignments, hosts, strict=True):
            there = [name for name in each.devices if (split_name(name) or (HERE,))[0] == host]
            moved = replace(
                each, devices=tuple(map(own_id, there)), own=tuple(map(own_id, each.own)), addresses=addresses,
                host=numbers[host], hosts=len(numbers), meeting=self._meeting.address, interface=interfaces[host],
                resumes=self._resumes,
            )
            (self._assignments.setdefault(host, []) if host else own).append(moved)
        return own

    # -- the parts -------------------------------------------------------------------------------

    def start(self, workers: WorkerGroup, spec: RunSpec) -> None:
        """Start the ranks on the other machines, and add them to the workers. Raises `RunError`."""
        files = self._workload.files()
        if self._meeting is not None:
            self._meeting.release()
        grace_s = float(os.environ.get(GRACE_VARIABLE) or GRACE_S)
        for name, assignments in self._assignments.items():
            link = self._links[name]
            tails = [workers.tail(each) for each in assignments]
            part = Part(head=platform.node(), run=self._run_dir.name, assignments=tuple(assignments), grace_s=grace_s)
            link.start(replace(spec, devices=assignments[0].devices), part, files)
            for assignment, tail in zip(assignments, tails, strict=True):
                named = replace(assignment, own=tuple(full_name(name, each) for each in assignment.own))
                workers.add(RemoteWorker(named, tail, link))

    def poll(self, facts: RunFacts | None = None) -> str:  # noqa: ARG002
        """Take what has arrived of all machines. Raises `RunError` once one is lost, and `RecordError`."""
        for link in self._links.values():
            link.poll()
        return ""

    def finish(self, is_hurried: Callable[[], bool]) -> None:
        """Wait for the ends of the parts, and record a verdict on each of their devices."""
        deadline = time.monotonic() + self._spec.release.wait_s + FINISH_S
        while not all(link.is_over for link in self._links.values()) and time.monotonic() < deadline:
            if is_hurried():
                for link in self._links.values():
                    link.request("force")
            try:
                self.poll()
            except RunError as error:  # the others are still waited for
                self._write(Notice(text=str(error)))
            time.sleep(POLL_S)
        for name in self._devices:
            host = name.partition("/")[0]
            if not self._links[host].has_verdict(name) and self._assignments:
                sentence = tr("{host} could not be asked whether the memory of {device} has come back.", host=host,
                              device=name)
                self._write(Release(
                    device_id=name, verdict=Verdict.CANNOT_BE_JUDGED, before_bytes=None, peak_bytes=None,
                    after_bytes=None, seconds=0.0, sentence=sentence,
                ))
        for host in self._assignments:
            if why := self._links[host].remove():
                self._write(Notice(text=tr("The part of this run on {host} is still there. {why}", host=host, why=why)))
        self._assignments.clear()

    def close(self) -> None:
        with contextlib.suppress(RecordError):
            if self._meeting is not None:
                self._meeting.close()
            for link in self._links.values():
                link.close()
        self._links.clear()


def _host_of(assignment: RankAssignment) -> str:
    """Return the host of a rank. One without a device, which coordinates or keeps variables, is on this machine."""
    found = split_name(assignment.own[0]) if assignment.own else None
    return found[0] if found else HERE
