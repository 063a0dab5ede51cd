"""The files of a part on another machine, and what they report, as the run records it.

There, devices have the names that they have in the run, and times are those of the clock here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

from core.devices.device import full_name
from core.hosts.connection import Answer, Connection
from core.hosts.run_files import TAIL_BYTES, FilePart, tail_hash, unpack_parts
from core.language import MAX_TEXT, Message, stored, tr
from core.schema import event_kinds as kinds
from core.schema.events import Event, Writer, parse
from core.schema.files import open_to_append
from core.schema.paths import DEVICE_EVENTS, EVENTS, GUARD_EVENTS, SUPERVISOR_EVENTS, host_events, worker_events

READ_S = 0.2
"""Seconds between two looks at the files of a part."""
MAX_LINE_BYTES = 16 * 1024 * 1024


class PartFiles:
    """The files of a part. They are read from their offsets on, also over cuts of the connection."""

    def __init__(self, part: str, ranks: Sequence[int], logs: Sequence[str], record: PartRecord) -> None:
        """`part`: the name of its run there. `logs`: names of its logs. `record`: what they have goes there."""
        self._part, self._ranks, self._record = part, tuple(ranks), record
        # The supervisor's file is first: when it has the end of a rank, the same look finds all that the rank wrote.
        events = (SUPERVISOR_EVENTS, *map(worker_events, ranks), DEVICE_EVENTS, GUARD_EVENTS)
        self._files = [_PartFile(name) for name in (*(f"{EVENTS}/{each}" for each in events), *logs)]
        self.reading: Answer | None = None
        """The pending request; None again after the connection was cut."""
        self._pending: dict[int, tuple[int, bool]] = {}
        """Ends of ranks, until the last events of the rank have been read."""
        self.exits: dict[int, tuple[int, bool]] = {}
        """By rank whose events are all here, its exit code and whether it was signalled."""
        self.asked_at = float("-inf")

    @property
    def are_read(self) -> bool:
        """Whether the last answer reached the end of each file."""
        return all(each.is_settled for each in self._files)

    def read_again(self) -> None:
        """Mark all files as unread: they may have grown."""
        for each in self._files:
            each.is_settled = False
        self.asked_at = float("-inf")

    def poll(self, connection: Connection) -> None:
        """Take what has arrived, and ask for what has been written since. Raises `HostError` and `RecordError`."""
        if self.reading is not None and self.reading.done:
            answer, self.reading = self.reading, None
            unpack = partial(unpack_parts, most=len(self._files))
            pieces = connection.read(unpack, connection.result(answer), tr("They are no parts of files."))
            for each in self._files[len(pieces) :]:
                each.is_settled = False
            for file, piece in zip(self._files, pieces, strict=False):
                self._take(connection, file, piece)
            if self.are_read:
                self.exits.update(self._pending)
                self._pending.clear()
        if self.reading is None and time.monotonic() - self.asked_at >= READ_S:
            self.asked_at = time.monotonic()
            reads = [[self._part, each.name, each.offset, tail_hash(each.tail)] for each in self._files]
            self.reading = connection.request("read", reads=reads)

    def _take(self, connection: Connection, file: _PartFile, piece: FilePart) -> None:
        if piece.error:
            file.is_settled = True  # it is not there yet, or not at all
            return
        try:
            data = piece.unpacked()
            lines = file.take(data)
        except ValueError:
            connection.fail_at(tr("They are no parts of files."))
        file.is_settled = file.offset >= piece.size
        if not file.name.startswith(f"{EVENTS}/"):
            self._record.add_log(file.name, data)
            return
        events = [event for line in lines if (event := parse(line)) is not None]
        if file.name.endswith(f"/{SUPERVISOR_EVENTS}"):
            self._pending.update(worker_exits(events, dict.fromkeys(self._ranks)))
        self._record.add_events(file.name, events, self._ranks)


@dataclass(slots=True)
class _PartFile:
    """A file of a part, as far as it has been read."""

    name: str
    offset: int = 0
    tail: bytes = b""
    rest: bytes = b""
    """The beginning of a line that is not whole yet."""
    is_settled: bool = False
    """Whether the last answer reached its end."""

    def take(self, data: bytes) -> list[bytes]:
        """Add what was read next; return the lines that are whole now. Raises `ValueError` for an endless line."""
        self.offset += len(data)
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > MAX_LINE_BYTES:
            raise ValueError
        return lines


IN_COLUMNS = (kinds.Metrics, kinds.DeviceReading)


class PartRecord:
    """The files of the run into which goes what a part on another machine reports."""

    def __init__(self, run_dir: Path, host: str) -> None:
        """`host`: the name of the machine."""
        self._run_dir, self._host = run_dir, host
        self._writers: dict[str, Writer] = {}
        self.offset_s = 0.0
        """Seconds by which the clock there is ahead."""
        self.released: set[str] = set()
        """Devices, by their ids in the run, on whose memory there is a finding."""

    def add_events(self, name: str, events: Sequence[Event], ranks: Sequence[int]) -> None:
        """Write what of a part's file of events concerns the run: a rank's into the file of the rank.

        `name`: of the file, from the part's folder on. `ranks`: those of the part.
        """
        own = {f"{EVENTS}/{worker_events(rank)}": worker_events(rank) for rank in ranks}
        source = kinds.OF_WORKERS if name in own else kinds.OF_HOST
        writer = self._writer(own.get(name, host_events(self._host)))
        for event in events:
            found = translate(event, source, self._host, self.offset_s)
            if found is None or (name in own and found.get("rank", 0) not in {0, *ranks}):
                continue
            if found["kind"] == kinds.Release.kind:
                self.released.add(found["device"])
            writer.write_json(json.dumps(found))

    def add_log(self, name: str, data: bytes) -> None:
        """Append what a log of the part has got to the run's log of that name."""
        if data:
            with os.fdopen(open_to_append(self._run_dir / name), "ab") as log:
                log.write(data)

    def add_notice(self, text: str) -> None:
        """Record a sentence about the machine."""
        self._writer(host_events(self._host)).write(kinds.Notice(text=text))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, name: str) -> Writer:
        if name not in self._writers:
            self._writers[name] = Writer(self._run_dir / EVENTS / name)
        return self._writers[name]


def translate(event: Event, source: kinds.Forwarded, host: str, offset_s: float) -> Event | None:
    """Return an event of a part as an event of the run; None if it does not concern the run.

    `source`: whose file of the part has it. `host`: the name of the machine here. `offset_s`: seconds by which its
    clock is ahead. Nothing is trusted: an event that makes no sense is left out.
    """
    kind = kinds.KINDS.get(event["kind"])
    if kind is None or source not in kind.forwarded:
        return None
    found = dict(event)
    try:
        if kind not in IN_COLUMNS:  # which were checked when the line was read
            kinds.read(event)
        for name, foreign in _foreign_fields(kind).items():  # type: ignore[arg-type]  # a class is hashable
            if foreign is kinds.Foreign.MACHINE or found.get(name) is not None:
                found[name] = _translated(foreign, found.get(name), host, offset_s)
    except (TypeError, ValueError):
        return None
    return found


def _translated(foreign: kinds.Foreign, value: Any, host: str, offset_s: float) -> object:  # noqa: ANN401 (JSON)
    match foreign:
        case kinds.Foreign.TIME:
            return value - offset_s
        case kinds.Foreign.DEVICE:
            return [full_name(host, each) for each in value] if isinstance(value, list) else full_name(host, value)
        case kinds.Foreign.MACHINE:
            return host
        case kinds.Foreign.SENTENCE:
            return stored(tr("{name}: {reason}", name=host, reason=Message.read(value).within(MAX_TEXT)))


@cache
def _foreign_fields(kind: type[kinds.Record]) -> dict[str, kinds.Foreign]:
    """Return the fields to translate, by their names in a file."""
    hints = get_type_hints(kind, include_extras=True)
    found = {each.metadata.get("key", each.name): _mark(hints[each.name]) for each in fields(kind)}
    return {name: mark for name, mark in found.items() if mark is not None}


def _mark(hint: object) -> kinds.Foreign | None:
    """Return what an annotation such as `DeviceId`, `DeviceId | None` or `tuple[DeviceId, ...]` says of its values."""
    marks = [*getattr(hint, "__metadata__", ()), *map(_mark, get_args(hint))]
    return next((mark for mark in marks if isinstance(mark, kinds.Foreign)), None)


def worker_exits(events: list[Event], ranks: Mapping[int, object]) -> dict[int, tuple[int, bool]]:
    """Return the exit codes of these ranks and whether they were signalled, as a part's supervisor has recorded it."""
    return {
        each.rank: (each.exit_code, each.signalled)
        for each in kinds.read_all(kinds.WorkerExit, events)
        if each.rank in ranks
    }
