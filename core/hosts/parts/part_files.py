"""The files of a part on another machine, which are followed into those of the run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from core.hosts.parts.part_record import worker_exits
from core.hosts.run_files import TAIL_BYTES, FilePart, tail_hash, unpack_parts
from core.language import tr
from core.schema.events import parse
from core.schema.paths import DEVICE_EVENTS, EVENTS, GUARD_EVENTS, SUPERVISOR_EVENTS, worker_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.hosts.connection import Answer, Connection
    from core.hosts.parts.part_record import PartRecord

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
        self._reading: Answer | None = None
        self._pending: dict[int, tuple[int, bool]] = {}
        """Ends of ranks, until the last events of the rank have been read."""
        self.exits: dict[int, tuple[int, bool]] = {}
        """By rank whose events are all here, its exit code and whether it was signalled."""
        self.asked_at = float("-inf")

    @property
    def is_awaited(self) -> bool:
        """Whether an answer is still to come."""
        return self._reading is not None

    @property
    def are_read(self) -> bool:
        """Whether the last answer reached the end of each file."""
        return all(each.is_settled for each in self._files)

    def read_again(self) -> None:
        """Mark all files as unread: they may have grown."""
        for each in self._files:
            each.is_settled = False
        self.asked_at = float("-inf")

    def forget_answer(self) -> None:
        """Forget the pending request, after the connection was cut."""
        self._reading = None

    def poll(self, connection: Connection) -> None:
        """Take what has arrived, and ask for what has been written since. Raises `HostError` and `RecordError`."""
        if self._reading is not None and self._reading.done:
            answer, self._reading = self._reading, None
            unpack = partial(unpack_parts, most=len(self._files))
            pieces = connection.read(unpack, connection.result(answer), tr("They are no parts of files."))
            for each in self._files[len(pieces) :]:
                each.is_settled = False
            for file, piece in zip(self._files, pieces, strict=False):
                self._take(connection, file, piece)
            if self.are_read:
                self.exits.update(self._pending)
                self._pending.clear()
        if self._reading is None and time.monotonic() - self.asked_at >= READ_S:
            self.asked_at = time.monotonic()
            reads = [
                [self._part, each.name, each.offset, tail_hash(each.tail) if each.tail else ""] for each in self._files
            ]
            self._reading = connection.request("read", reads=reads)

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
