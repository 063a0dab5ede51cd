"""One other machine of a run: start a part of the run there, follow its files over cuts of the connection, steer it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.errors import RunError
from core.hosts.carriers.registry import carrier_of
from core.hosts.connection import Connection
from core.hosts.exchange import unpack_devices
from core.hosts.failures import Failure, HostError
from core.hosts.inquiry import ANSWER_S, HELLO_S
from core.hosts.mirror.link import SILENT_S, unpacked
from core.hosts.run_files import tail_hash
from core.language import tr, tr_noop, tr_stored
from core.schema.events import Writer, parse
from core.schema.files import open_to_append
from core.schema.paths import (
    DEVICE_EVENTS,
    EVENTS,
    GUARD_EVENTS,
    LOG_FILE,
    SUPERVISOR_EVENTS,
    host_events,
    log_of_rank,
    worker_events,
)
from core.scripts.own_files import files_hash
from core.supervisor.hosts.addresses import OwnAddress, free_ports, own_address
from core.supervisor.hosts.part_file import PartFile
from core.supervisor.hosts.preflight import Equipment
from core.supervisor.hosts.translation import OF_HOST, OF_WORKERS, translate, worker_exits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.devices.device import Device
    from core.hosts.connection import Answer
    from core.hosts.exchange import HostDevices
    from core.hosts.host_list import Host
    from core.runs.part import Part
    from core.schema.events import Event
    from core.schema.spec import RunSpec

START_S = 60.0
"""Longest wait for the start of a part: the recipe is checked there first."""
EQUIPMENT_S = 90.0
"""Longest wait for what a machine trains with: PyTorch is imported there to learn the version of NCCL."""
READ_S = 0.2
"""Seconds between two looks at the files of a part."""
STATE_S = 1.0
"""Seconds between two questions for the state of a part."""
RETRY_S = 2.0
"""Seconds between two attempts to connect again."""
REMOVE_S = 20.0
MAX_ERROR = 2000
"""Characters of a part's error that are shown."""


@dataclass(slots=True)
class _Following:
    """A part that was started."""

    run: str
    ranks: tuple[int, ...]
    grace_s: float
    files: list[PartFile]
    can_resume: bool
    """Whether its run can go on from a checkpoint."""
    pending: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Exit codes by rank and whether the rank was signalled, until the last events of the rank have been read."""
    exits: dict[int, tuple[int, bool]] = field(default_factory=dict)
    reading: tuple[Answer, list[PartFile]] | None = None
    asking: Answer | None = None
    read_at: float = float("-inf")
    asked_at: float = float("-inf")
    requested: list[str] = field(default_factory=list)
    sent: int = 0
    """How many of the requests this connection has sent."""
    over: bool = False
    error: str = ""
    """Why the part failed or was lost, until that has been raised."""


class PartLink:
    """One other machine of a run."""

    def __init__(self, host: Host, run_dir: Path) -> None:
        """Start to connect. Raises `HostError` if that is not possible at all."""
        self.host = host
        self._run_dir = run_dir
        self._connection = Connection(host)
        self._reserved: tuple[Device, ...] = ()
        """Devices off which every connection keeps the carrier's other users."""
        self._offset_s = 0.0
        self._listening: Answer | None = None
        """The ports that the machine keeps for its ranks until they start."""
        self._part: _Following | None = None
        self._cut_at: float | None = None
        self._retry_at = 0.0
        self._cut: HostError | None = None
        self._next: Connection | None = None
        """The connection that is to take the place of one that was cut."""
        self._writers: dict[str, Writer] = {}
        self._released: set[str] = set()

    # -- before the start ------------------------------------------------------------------------

    def meet(self) -> float:
        """Wait until the agent answers; return the seconds by which its clock is ahead. Raises `HostError`."""
        self._await_hello()
        self._offset_s = self._connection.compare_clock(ANSWER_S).offset_s
        return self._offset_s

    def _await_hello(self) -> None:
        self._connection.wait(lambda: self._connection.hello is not None, HELLO_S, lambda: True)

    def devices(self) -> HostDevices:
        """Return the devices there. Raises `HostError`."""
        try:
            return unpack_devices(self._connection.ask("devices", ANSWER_S))
        except ValueError:
            self._connection.fail_at(tr("They are no devices."))

    def equipment(self, asked: Mapping[str, Any]) -> Equipment:
        """Return what the machine trains with. Raises `HostError`, also if the framework is not installed there.

        `asked`: the terms of the request, as `preflight.questions` returns.
        """
        found = self._connection.ask("equipment", EQUIPMENT_S, **asked)
        try:
            texts = {name: found[name] for name in ("version", "nccl", "recipe")}
            paths = dict(found["paths"])
            if not all(isinstance(each, str) for each in (*texts.values(), *paths, *paths.values())):
                raise TypeError  # noqa: TRY301 (as for what is missing)
        except (LookupError, TypeError, ValueError):
            self._connection.fail_at(tr("It does not say what it trains with."))
        return Equipment(paths=paths, **texts)

    def reserve(self, devices: Sequence[Device]) -> None:
        """Keep other users of the carrier off these devices from now on. Raises `HostError` if they use them."""
        if not carrier_of(self.host.address).is_shared:
            return
        self._reserved = tuple(devices)
        self._connection.close()
        self._connection = Connection(self.host, self._reserved)
        self._await_hello()

    def check_script(self, spec: RunSpec, hashes: Mapping[str, str], modules: Sequence[str]) -> dict[str, Any]:
        """Check that a script can be started there, and return the versions of some packages. Raises `HostError`.

        `hashes`: those of its files here, by path.
        """
        found = self._connection.ask(
            "script", START_S, spec=spec.to_json(), hashes=dict(hashes), modules=list(modules)
        )  # fmt: skip
        versions = found.get("versions") if isinstance(found, dict) else None
        if not isinstance(versions, dict):
            self._connection.fail_at(tr("It does not say what it trains with."))
        return versions

    def peer(self) -> str:
        """Return the address from which this machine has connected; the empty string if the carrier does not tell."""
        found = self._connection.ask("peer", ANSWER_S)
        address = found.get("address") if isinstance(found, dict) else None
        if not isinstance(address, str):
            self._connection.fail_at(tr("It names no address."))
        return address

    def reach(self, address: str, port: int) -> OwnAddress:
        """Return the address from which the machine reaches another one. Raises `HostError` if it does not."""
        found = self._connection.ask("reach", ANSWER_S, address=address, port=port)
        try:
            return own_address(found)
        except ValueError:
            self._connection.fail_at(tr("It names no network interface."))

    def listen(self, count: int) -> list[int]:
        """Let the machine listen on `count` free ports until `end_listening`; return them. Raises `HostError`."""
        answer = self._connection.request("listen", count=count)
        self._connection.wait(lambda: bool(answer.items) or answer.done, ANSWER_S, lambda: True)
        self._listening = answer
        try:
            return free_ports(answer.items.popleft() if answer.items else self._connection.result(answer), count)
        except ValueError:
            self._connection.fail_at(tr("It names no free ports."))

    def end_listening(self) -> None:
        """End what `listen` began, and wait until the ports are free for the ranks. Raises `HostError`."""
        answer, self._listening = self._listening, None
        if answer is not None:
            self._connection.cancel(answer)
            self._connection.wait(lambda: answer.done, ANSWER_S, lambda: True)

    # -- the part --------------------------------------------------------------------------------

    def start(self, spec: RunSpec, part: Part, files: Mapping[str, str]) -> None:
        """Start the part. Raises `HostError` with what keeps it from starting."""
        found = self._connection.ask(
            "part", START_S, spec=spec.to_json(), part=part.to_json(), files=dict(files), hash=files_hash(files)
        )  # fmt: skip
        run = found.get("run") if isinstance(found, dict) else None
        if not isinstance(run, str):
            self._connection.fail_at(tr("It does not say what it has started."))
        if isinstance(found, dict) and found.get("ended"):
            text = tr(
                "An earlier part of this run was still running on {name}. It was ended before this one was started.",
                name=self.host.name,
            )
            self._notice(text)
        ranks = tuple(each.rank for each in part.assignments)
        names = [f"{EVENTS}/{each}" for each in (SUPERVISOR_EVENTS, *map(worker_events, ranks), DEVICE_EVENTS,
                                                 GUARD_EVENTS)]  # fmt: skip
        is_script = spec.script is not None
        logs = [LOG_FILE, *(log_of_rank(self._run_dir, rank).name for rank in ranks if is_script)]
        self._part = _Following(
            run=run, ranks=ranks, grace_s=part.grace_s, files=[PartFile(each) for each in (*names, *logs)],
            can_resume=not is_script,
        )  # fmt: skip
        self._connection.request("hold", run=run)

    def poll(self) -> None:
        """Take what has arrived. Raises `RunError` once the machine is lost, and `RecordError`."""
        part = self._part
        if part is None or (part.over and self._is_read):
            return
        try:
            if self._cut_at is not None and not self._reconnected():
                return
            self._connection.poll()
            self._check_silence(part)
            self._take_files()
            self._take_state()
            self._send_requests()
        except HostError as error:
            self._note_cut(error)
        self._raise_error(part)

    def _raise_error(self, part: _Following) -> None:
        """Raise `RunError` once if the part failed without the end of a worker that would say why."""
        if part.error and self.is_over and not all(rank in part.exits for rank in part.ranks):
            error, part.error = part.error, ""
            raise RunError(
                tr("The part of this run on {name} has ended. {error}", name=self.host.name, error=tr_stored(error))
            )

    @property
    def is_over(self) -> bool:
        """Whether the part has ended and all its events are here, or the machine is lost."""
        return self._part is None or (self._part.over and self._is_read)

    def exit_of(self, rank: int) -> tuple[int, bool] | None:
        """Return the exit code of a rank whose events are all here, and whether it was signalled; None until then."""
        part = self._part
        if part is not None and (rank in part.exits or not self.is_over):
            return part.exits.get(rank)
        return -signal.SIGKILL, True  # the machine is lost, or its supervisor has ended without a word on the rank

    def has_verdict(self, device: str) -> bool:
        """Return whether the finding on a device of this machine has arrived."""
        return device in self._released

    def request(self, name: str) -> None:
        """Request `stop` or `force` of the part, now or when the connection is back."""
        if self._part is not None and name not in self._part.requested:
            self._part.requested.append(name)

    def remove(self) -> str:
        """Remove the part if it is over. Return why it is still there; the empty string if it is gone."""
        part, self._part = self._part, None
        if part is None or not part.over or self._cut_at is not None:
            return tr("It is not over, or cannot be reached.")
        try:
            self._connection.ask("remove", REMOVE_S, run=part.run)
        except HostError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """End the connection."""
        self._close_next()
        self._connection.close()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    # -- files -----------------------------------------------------------------------------------

    @property
    def _is_read(self) -> bool:
        return self._part is not None and all(each.is_settled for each in self._part.files)

    def _take_files(self) -> None:
        part = self._part
        assert part is not None
        if part.reading is not None and part.reading[0].done:
            (answer, asked), part.reading = part.reading, None
            found = self._connection.result(answer)
            parts = found.get("parts") if isinstance(found, dict) else None
            if not isinstance(parts, list) or not 0 < len(parts) <= len(asked):
                self._connection.fail_at(tr("They are no parts of files."))
            for each in asked[len(parts) :]:
                each.is_settled = False
            for file, piece in zip(asked, parts, strict=False):
                self._take_piece(file, piece)
            if all(each.is_settled for each in part.files):  # the supervisor's file was read first
                part.exits.update(part.pending)
                part.pending.clear()
        if part.reading is None and time.monotonic() - part.read_at >= READ_S:
            part.read_at = time.monotonic()
            reads = [
                [part.run, each.name, each.offset, tail_hash(each.tail) if each.tail else ""] for each in part.files
            ]
            part.reading = self._connection.request("read", reads=reads), list(part.files)

    def _take_piece(self, file: PartFile, piece: Any) -> None:  # noqa: ANN401 (JSON)
        if isinstance(piece, dict) and isinstance(piece.get("error"), str):
            file.is_settled = True  # it is not there yet, or not at all
            return
        try:
            size, data = int(piece["size"]), unpacked(piece["data"])
            lines = file.take(data)
        except (LookupError, TypeError, ValueError):
            self._connection.fail_at(tr("They are no parts of files."))
        file.is_settled = file.offset >= size
        if not file.name.startswith(f"{EVENTS}/"):
            self._append_log(file.name, data)
            return
        events = [event for line in lines if (event := parse(line)) is not None]
        if file.name.endswith(f"/{SUPERVISOR_EVENTS}"):
            assert self._part is not None
            self._part.pending.update(worker_exits(events, dict.fromkeys(self._part.ranks)))
        self._record(file.name, events)

    def _record(self, name: str, events: Sequence[Event]) -> None:
        """Write the events that concern the run: those of ranks into the files of the ranks."""
        part = self._part
        assert part is not None
        own = {f"{EVENTS}/{worker_events(rank)}": worker_events(rank) for rank in part.ranks}
        kinds = OF_WORKERS if name in own else OF_HOST
        writer = self._writer(own.get(name, host_events(self.host.name)))
        for event in events:
            found = translate(event, kinds, self.host.name, self._offset_s)
            if found is None or (name in own and found.get("rank", 0) not in {0, *part.ranks}):
                continue
            if found["kind"] == "release":
                self._released.add(found["device"])
            writer.write_json(json.dumps(found))

    def _writer(self, name: str) -> Writer:
        if name not in self._writers:
            self._writers[name] = Writer(self._run_dir / EVENTS / name)
        return self._writers[name]

    def _append_log(self, name: str, data: bytes) -> None:
        if not data:
            return
        with os.fdopen(open_to_append(self._run_dir / name), "ab") as log:
            log.write(data)

    # -- state and requests ----------------------------------------------------------------------

    def _take_state(self) -> None:
        part = self._part
        assert part is not None
        if part.asking is not None and part.asking.done:
            found = self._connection.result(part.asking)
            part.asking = None
            if not isinstance(found, dict):
                self._connection.fail_at(tr("It does not say what became of the run there."))
            part.over = found.get("over") is True
            part.error = str(found.get("error") or "")[:MAX_ERROR] if part.over else ""
            if part.over:
                for each in part.files:
                    each.is_settled = False  # what was written since
                part.read_at = float("-inf")
        if part.asking is None and not part.over and time.monotonic() - part.asked_at >= STATE_S:
            part.asked_at = time.monotonic()
            part.asking = self._connection.request("part_state", run=part.run)

    def _send_requests(self) -> None:
        part = self._part
        assert part is not None
        while part.sent < len(part.requested):
            self._connection.request("request", run=part.run, name=part.requested[part.sent])
            part.sent += 1

    # -- cuts ------------------------------------------------------------------------------------

    def _check_silence(self, part: _Following) -> None:
        """Give the connection up if a question has had no answer for too long, as when the agent is stopped."""
        awaits = part.reading is not None or part.asking is not None
        if awaits and time.monotonic() - max(self._connection.heard_at, part.read_at) > SILENT_S:
            self._connection.fail_silent(SILENT_S)

    def _note_cut(self, error: HostError) -> None:
        self._cut_at, self._cut = time.monotonic(), error
        self._retry_at = self._cut_at + RETRY_S
        self._connection.close()

    def _reconnected(self) -> bool:
        """Go on to connect again; return whether the connection is back. Raises `RunError` after the grace time."""
        part = self._part
        assert part is not None
        assert self._cut_at is not None
        now = time.monotonic()
        if now - self._cut_at > part.grace_s:
            self._part = None
            raise RunError(self._lost(now - self._cut_at, can_resume=part.can_resume))
        try:
            if self._next is None and now >= self._retry_at:
                self._next = Connection(self.host, self._reserved)
            if self._next is not None:
                self._next.poll()
        except HostError as error:
            self._cut, self._retry_at = error, now + RETRY_S
            self._close_next()
            self._give_up_reservation(error)
        if self._next is None or self._next.hello is None:
            return False
        self._connection, self._next = self._next, None
        self._follow_again(part, now - self._cut_at)
        return True

    def _follow_again(self, part: _Following, seconds: float) -> None:
        self._cut_at = part.reading = part.asking = None
        part.sent = 0
        self._connection.request("hold", run=part.run)
        text = tr("The connection to {name} was cut for {seconds:.0f} s. Training went on meanwhile. {why}",
                  name=self.host.name, seconds=seconds, why=self._cut)  # fmt: skip
        self._notice(text)

    def _give_up_reservation(self, error: HostError) -> None:
        """Go on beside other users of the carrier who were given the devices while the connection was cut."""
        if error.failure is Failure.BUSY and self._reserved:
            self._reserved = ()
            self._notice(
                tr(
                    "The devices of {name} are no longer kept for this run alone: while the connection was cut, other "
                    "programs were given them. Training goes on beside these.",
                    name=self.host.name,
                )
            )

    def _notice(self, text: str) -> None:
        self._writer(host_events(self.host.name)).write("notice", text=text)

    def _close_next(self) -> None:
        if self._next is not None:
            self._next.close()
            self._next = None

    def _lost(self, seconds: float, *, can_resume: bool) -> str:
        sentence = (
            tr_noop(
                "The run cannot go on without {name}, to which there has been no connection for {seconds:.0f} s. Its "
                "processes there end by themselves. When {name} can be reached, resume the run from its last "
                "checkpoint. {why}"
            )
            if can_resume
            else tr_noop(
                "The run cannot go on without {name}, to which there has been no connection for {seconds:.0f} s. Its "
                "processes there end by themselves. When {name} can be reached, start the script again. {why}"
            )
        )
        return tr(sentence, name=self.host.name, seconds=seconds, why=self._cut)
