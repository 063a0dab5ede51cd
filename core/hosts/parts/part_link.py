"""One other machine of a run: start a part of the run there, follow its files over cuts of the connection, steer it."""

from __future__ import annotations

import ipaddress
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from core.devices.device import Device
from core.errors import RunError
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import ANSWER_S, SILENT_S, Answer, Connection
from core.hosts.host_list import Host
from core.hosts.parts.part_files import PartFiles, PartRecord
from core.hosts.protocol import HostDevices, unpack_devices
from core.language import tr, tr_noop
from core.runs.directory import Part
from core.schema.codec import Limits, Sentence, decode, encode
from core.schema.paths import LOG_FILE, log_of_rank
from core.schema.spec import RunSpec
from core.scripts.source import files_hash

START_S = 60.0
"""Longest wait for the start of a part: the recipe is checked there first."""
RETRY_S = 2.0
"""Seconds between two attempts to connect again."""
STATE_S = 1.0
"""Seconds between two questions for the state of a part."""
REMOVE_S = 20.0
MAX_ERROR = 2000
"""Characters of a part's error that are shown."""
LOST_RUN = tr_noop(
    "The run cannot go on without {name}, to which there has been no connection for {seconds:.0f} s. Its processes "
    "there end by themselves. When {name} can be reached, resume the run from its last checkpoint. {why}"
)
LOST_SCRIPT = tr_noop(
    "The run cannot go on without {name}, to which there has been no connection for {seconds:.0f} s. Its processes "
    "there end by themselves. When {name} can be reached, start the script again. {why}"
)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peer:
    """The answer to `peer`."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The answer to `part`."""

    run: str
    ended: str = ""
    """The id of an earlier part of the run that was ended first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The answer to `part_state`."""

    over: bool
    error: Sentence | None = None


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """From where a machine reaches another one: the answer to `reach`."""

    interface: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ports:
    """The answer to `listen`."""

    ports: tuple[int, ...]


@dataclass(slots=True)
class _Started:
    """A part that was started."""

    run: str
    ranks: tuple[int, ...]
    grace_s: float
    files: PartFiles
    can_resume: bool
    """Whether its run can go on from a checkpoint."""
    asking: Answer | None = None
    asked_at: float = float("-inf")
    requested: list[str] = field(default_factory=list)
    sent: int = 0
    """How many of the requests this connection has sent."""
    over: bool = False
    error: str = ""
    """Why the part failed or was lost, until that has been raised."""
    missed_at: float | None = None
    """When it ceased to answer: a connection alone does not show that the part is still there."""


class PartLink:
    """One other machine of a run."""

    def __init__(self, host: Host, run_dir: Path) -> None:
        """Start to connect. Raises `HostError` if that is not possible at all."""
        self.host = host
        self._run_dir = run_dir
        self._connection = Connection(host)
        """The connection of now; while it is cut, the one that was."""
        self._reserved: tuple[Device, ...] = ()
        """Devices off which every connection keeps the carrier's other users."""
        self._cut: HostError | None = None
        """Why it was cut the last time, or why it could not be made again since."""
        self._is_cut = False
        self._retry_at = 0.0
        self._next: Connection | None = None
        """The connection that is to take the place of one that was cut."""
        self._record = PartRecord(run_dir, host.name)
        self._listening: Answer | None = None
        """The ports that the machine keeps for its ranks until they start."""
        self._part: _Started | None = None

    # -- before the start ------------------------------------------------------------------------

    def meet(self) -> float:
        """Wait until the agent answers; return the seconds by which its clock is ahead. Raises `HostError`."""
        self._connection.await_hello()
        self._record.offset_s = self._connection.compare_clock().offset_s
        return self._record.offset_s

    def ask(
        self, ability: str, unpack: Callable[[Any], Found], why: str, *, timeout_s: float | None = None, **terms: object
    ) -> Found:
        """Ask the agent, and return what `unpack` makes of its answer. Raises `HostError`.

        `why`: the sentence for an answer that makes no sense, for which `unpack` raises.
        """
        return self._connection.read(unpack, self._connection.ask(ability, timeout_s, **terms), why)

    def devices(self) -> HostDevices:
        """Return the devices there. Raises `HostError`."""
        return self.ask("devices", unpack_devices, tr("They are no devices."))

    def reserve(self, devices: Sequence[Device]) -> None:
        """Keep other users of the carrier off these devices from now on. Raises `HostError` if they use them."""
        if self.host.carrier.is_shared:
            self._reserved = tuple(devices)
            self._connection.close()
            self._connection = Connection(self.host, self._reserved)
            self._connection.await_hello()

    def peer(self) -> str:
        """Return the address from which this machine has connected; the empty string if the carrier does not tell."""
        return self.ask("peer", partial(decode, _Peer), tr("It names no address.")).address

    def reach(self, address: str, port: int) -> OwnAddress:
        """Return the address from which the machine reaches another one. Raises `HostError` if it does not."""
        return self.ask("reach", own_address, tr("It names no network interface."), address=address, port=port)

    def listen(self, count: int) -> list[int]:
        """Let the machine listen on `count` free ports until `end_listening`; return them. Raises `HostError`."""
        answer = self._connection.request("listen", count=count)
        self._connection.wait(lambda: answer.items or answer.done, ANSWER_S)
        self._listening = answer
        found = answer.items.popleft() if answer.items else self._connection.result(answer)
        return self._connection.read(partial(free_ports, count=count), found, tr("It names no free ports."))

    def end_listening(self) -> None:
        """End what `listen` began, and wait until the ports are free for the ranks. Raises `HostError`."""
        answer, self._listening = self._listening, None
        if answer is not None:
            self._connection.cancel(answer)
            self._connection.wait(lambda: answer.done, ANSWER_S)

    # -- the part --------------------------------------------------------------------------------

    def start(self, spec: RunSpec, part: Part, files: Mapping[str, str]) -> None:
        """Start the part. Raises `HostError` with what keeps it from starting."""
        found = self.ask(
            "part", partial(decode, _Start), tr("It does not say what it has started."),
            timeout_s=START_S, spec=spec.to_json(), part=encode(part), files=dict(files), hash=files_hash(files),
        )
        if found.ended:
            self._record.add_notice(tr("An earlier part of this run was still running on {name}. It was ended before "
                                       "this one was started.", name=self.host.name))
        ranks = tuple(each.rank for each in part.assignments)
        is_script = spec.script is not None
        logs = [LOG_FILE, *(log_of_rank(self._run_dir, rank).name for rank in ranks if is_script)]
        self._part = _Started(
            run=found.run, ranks=ranks, grace_s=part.grace_s, files=PartFiles(found.run, ranks, logs, self._record),
            can_resume=not is_script,
        )
        self._connection.request("hold", run=found.run)

    def poll(self) -> None:
        """Take what has arrived. Raises `RunError` once the machine is lost, and `RecordError`."""
        part = self._part
        if part is None or self.is_over:
            return
        try:
            if self._is_cut and not self._reconnected(part):
                return
            self._connection.poll()
            awaits = part.files.reading is not None or part.asking is not None
            if awaits and time.monotonic() - max(self._connection.heard_at, part.files.asked_at) > SILENT_S:
                self._connection.fail_silent(SILENT_S)  # as when the agent is stopped
            part.files.poll(self._connection)
            self._take_state(part)
            while part.sent < len(part.requested):
                self._connection.request("request", run=part.run, name=part.requested[part.sent])
                part.sent += 1
        except HostError as error:
            part.missed_at = part.missed_at or time.monotonic()
            self._is_cut, self._cut, self._retry_at = True, error, time.monotonic() + RETRY_S
            self._connection.close()
        if part.error and part.files.are_read and not all(rank in part.files.exits for rank in part.ranks):
            why, part.error = part.error, ""  # raised once, since no end of a worker says why
            raise RunError(tr("The part of this run on {name} has ended. {error}", name=self.host.name, error=why))

    @property
    def is_over(self) -> bool:
        """Whether the part has ended and all its events are here, or the machine is lost."""
        return self._part is None or (self._part.over and self._part.files.are_read)

    def exit_of(self, rank: int) -> tuple[int, bool] | None:
        """Return the exit code of a rank whose events are all here, and whether it was signalled; None until then."""
        part = self._part
        if part is not None and (rank in part.files.exits or not self.is_over):
            return part.files.exits.get(rank)
        return -signal.SIGKILL, True  # the machine is lost, or its supervisor has ended without a word on the rank

    def has_verdict(self, device: str) -> bool:
        """Return whether the finding on a device of this machine has arrived."""
        return device in self._record.released

    def request(self, name: str) -> None:
        """Request `stop` or `force` of the part, now or when the connection is back."""
        if self._part is not None and name not in self._part.requested:
            self._part.requested.append(name)

    def remove(self) -> str:
        """Remove the part if it is over. Return why it is still there; the empty string if it is gone."""
        part, self._part = self._part, None
        if part is None or not part.over or self._is_cut:
            return tr("It is not over, or cannot be reached.")
        try:
            self._connection.ask("remove", REMOVE_S, run=part.run)
        except HostError as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._close_next()
        self._connection.close()
        self._record.close()

    # -- state and requests ----------------------------------------------------------------------

    def _take_state(self, part: _Started) -> None:
        if part.asking is not None and part.asking.done:
            answer, part.asking = self._connection.result(part.asking), None
            why = tr("It does not say what became of the run there.")
            found = self._connection.read(partial(decode, _State, limits=Limits(text=MAX_ERROR)), answer, why)
            self._note_return(part)
            part.over, part.error = found.over, found.error or "" if found.over else ""
            if part.over:
                part.files.read_again()
        if part.asking is None and not part.over and time.monotonic() - part.asked_at >= STATE_S:
            part.asked_at = time.monotonic()
            part.asking = self._connection.request("part_state", run=part.run)

    # -- cuts ------------------------------------------------------------------------------------

    def _reconnected(self, part: _Started) -> bool:
        """Go on to connect again; return whether the connection is back. Raises `RunError` after the grace time."""
        seconds = time.monotonic() - (part.missed_at or time.monotonic())
        if seconds > part.grace_s:
            self._part = None
            sentence = LOST_RUN if part.can_resume else LOST_SCRIPT
            raise RunError(tr(sentence, name=self.host.name, seconds=seconds, why=self._cut))
        if not self._try_again():
            if self._reserved and self._cut is not None and self._cut.failure is Failure.BUSY:
                self._reserved = ()
                self._record.add_notice(tr(
                    "The devices of {name} are no longer kept for this run alone: while the connection was cut, "
                    "other programs were given them. Training goes on beside these.", name=self.host.name,
                ))
            return False
        part.asking = None
        part.files.reading = None
        part.sent = 0
        self._connection.request("hold", run=part.run)
        if part.over:
            self._note_return(part)
        return True

    def _try_again(self) -> bool:
        """Go on to connect again, without waiting; return whether there is a connection."""
        now = time.monotonic()
        try:
            if self._next is None and now >= self._retry_at:
                self._next = Connection(self.host, self._reserved)
            if self._next is not None:
                self._next.poll()
        except HostError as error:
            self._cut, self._retry_at = error, now + RETRY_S
            self._close_next()
        if self._next is None or self._next.hello is None:
            return False
        self._connection, self._next, self._is_cut = self._next, None, False
        return True

    def _close_next(self) -> None:
        if self._next is not None:
            self._next.close()
            self._next = None

    def _note_return(self, part: _Started) -> None:
        """Record that the part answers again, if it had ceased to."""
        if part.missed_at is not None:
            seconds, part.missed_at = time.monotonic() - part.missed_at, None
            text = tr("The connection to {name} was cut for {seconds:.0f} s. Training went on meanwhile. {why}",
                      name=self.host.name, seconds=seconds, why=self._cut)
            self._record.add_notice(text)


def ask_all(links: Mapping[str, PartLink], ask: Callable[[PartLink], Found]) -> dict[str, Found]:
    """Return by machine what `ask` returns for it, each asked on a thread of its own.

    All are waited for. Raises what `ask` raised for the first machine in their order.
    """
    if len(links) == 1:
        return {name: ask(link) for name, link in links.items()}
    with ThreadPoolExecutor(len(links)) as pool:
        asked = {name: pool.submit(ask, link) for name, link in links.items()}
    return {name: each.result() for name, each in asked.items()}


def own_address(found: Any) -> OwnAddress:  # noqa: ANN401 (JSON)
    """Return what a machine has answered to `reach`. Raises `ValueError` if that is no interface and address."""
    own = decode(OwnAddress, found)
    if not own.interface or not own.interface.isprintable():
        raise ValueError
    ipaddress.IPv4Address(own.address)  # raises
    return own


def free_ports(found: Any, count: int) -> list[int]:  # noqa: ANN401 (JSON)
    """Return what a machine has answered to `listen`. Raises `ValueError` unless these are `count` different ports."""
    ports = decode(_Ports, found).ports
    if not len(ports) == len(set(ports)) == count or not all(0 < each < 65536 for each in ports):
        raise ValueError
    return [*ports]
