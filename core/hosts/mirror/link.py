"""One connection to a host: what is under way on it, and what arrives is brought into the copy."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.hosts.exchange import unpack_readings
from core.hosts.mirror.copies import Plan, renamed
from core.hosts.run_files import MAX_WHOLE_BYTES, TAIL_BYTES, WHOLE, file_state, tail_hash, unpack_listing, unpack_parts
from core.language import tr
from core.runs.foreign import There, read_there, write_there

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.devices.device import Sample
    from core.devices.helper import HelperAnswer
    from core.hosts.connection import Answer, Connection
    from core.hosts.mirror.copies import Copies
    from core.hosts.run_files import FilePart, Listing, RunEntry

READS = 128
"""Files that are asked for at once."""
BEAT_S = 3.0
"""Seconds without anything from the agent after which it is asked whether it is there."""
SILENT_S = 12.0
"""Seconds without anything from it after which the connection counts as cut: an agent that is stopped says nothing."""
READINGS_S = 0.5
"""Seconds between two readings of the devices there."""
MAX_READINGS = 1000
MAX_PARTS_BYTES = 64 * 1024 * 1024
"""Bytes of files that have arrived in part, and are replaced as a whole."""
PERIOD_S = 0.2
"""Seconds between two looks of the agent at its runs."""


class Link:
    """A connection that keeps copies up to date.

    Methods raise `HostError` once it is of no use, and `OSError` where the copies cannot be written.
    """

    def __init__(self, connection: Connection, copies: Copies, told: Callable[[str], None]) -> None:
        """`told`: called with the name of a run whose copy must be read again from its beginning."""
        self.connection = connection
        self.plan = Plan(copies)
        self.is_complete = False
        """Whether all runs of the host are known."""
        self._copies, self._told = copies, told
        self._runs: Answer | None = None
        self._reading: tuple[Answer, list[tuple[str, str, int]]] | None = None
        """The parts that were asked for, and from which offsets."""
        self._beat: Answer | None = None
        self.readings: deque[HelperAnswer] = deque(maxlen=MAX_READINGS)
        """The readings of the host's devices that nobody has fetched yet, in order."""
        self._readings: Answer | None = None
        self._previous: tuple[Sample, ...] = ()
        self._parts: dict[tuple[str, str], bytes] = {}
        """Files that are replaced as a whole, as far as they have arrived."""
        self._part_seen: set[str] = set()
        """Runs whose measurements were missing when they were listed."""
        self._there = There()
        self._written = self._there

    def poll(self, timeout_s: float, *, writes: bool = True) -> None:
        """Take what has arrived, and ask for more. `writes`: whether the copies are brought up to date, too."""
        self.connection.poll(timeout_s)
        self._check_silence()
        self._take_readings()
        if not self._copies.is_kept or not writes:
            return
        if self._runs is None:
            self._begin()
        assert self._runs is not None
        while self._runs.items:
            self._take_listing(self._runs.items.popleft())
        if self._runs.done:
            self.connection.result(self._runs)  # raises why there are no more
            self._runs = None
        self._take_parts()
        self._ask_for_parts()
        self._keep_there()

    def _begin(self) -> None:
        assert self.connection.hello is not None
        self._runs = self.connection.request("runs", period_s=PERIOD_S)
        known = read_there(self._copies.root)
        self._there = replace(known, host=self.connection.host.name, folder=self.connection.hello.runs, cut_since=None)

    def _check_silence(self) -> None:
        silent_s = time.monotonic() - self.connection.heard_at
        if self._beat is not None and self._beat.done:
            self._beat = None
        if silent_s > BEAT_S and self._beat is None:
            self._beat = self.connection.request("clock")
        if silent_s > SILENT_S:
            self.connection.fail_silent(SILENT_S)

    def _take_readings(self) -> None:
        if self._readings is None:
            self._readings = self.connection.request("readings", period_s=READINGS_S)
        while self._readings.items:
            unpack = partial(unpack_readings, previous=self._previous)
            found = self.connection.read(unpack, self._readings.items.popleft(), tr("They are no devices."))
            self._previous = found.samples
            self.readings.append(found)
        if self._readings.done:
            self.connection.result(self._readings)
            self._readings = None

    # -- runs ------------------------------------------------------------------------------------

    def _take_listing(self, item: Any) -> None:  # noqa: ANN401 (JSON)
        listing = self.connection.read(unpack_listing, item, tr("They are no runs."))
        gone = {*listing.gone}
        for old, new in renamed(self.plan.entries, gone, listing.runs):
            self._copies.rename(old, new)
        for name in gone:
            self._forget(name)
        for name, entry in listing.runs.items():
            self._take_entry(name, entry)
        self._note_there(listing)
        if listing.complete:
            self.is_complete = True
            for name in set(self._copies.names()) - self.plan.entries.keys():
                self._forget(name)

    def _take_entry(self, name: str, entry: RunEntry) -> None:
        if not self.plan.put(name, entry):
            return
        self._copies.note_life(name, live=entry.live)
        if not self.plan.is_settled(name) or not (entry.live or self.plan.is_whole(name)):
            self._part_seen.add(name)

    def _forget(self, name: str) -> None:
        self.plan.forget(name)
        self._copies.remove(name)
        self._part_seen.discard(name)

    def _note_there(self, listing: Listing) -> None:
        """Keep what was said of processes. That a run is lost counts once its files are here: they may have its end."""
        lost, stopped, owners = dict(self._there.lost), dict(self._there.stopped), dict(self._there.owners)
        for name in (*listing.gone, *listing.runs):
            entry = self.plan.entries.get(name)
            for kept, text in ((stopped, entry and entry.stopped), (owners, entry and entry.owner)):
                if text:
                    kept[name] = text
                else:
                    kept.pop(name, None)
            if entry is None or not entry.lost:
                lost.pop(name, None)
        for name, entry in self.plan.entries.items() if listing.complete else listing.runs.items():
            if entry.lost and self.plan.is_settled(name):
                lost[name] = entry.lost
        self._there = replace(self._there, lost=lost, stopped=stopped, owners=owners)

    def _note_lost(self, name: str) -> None:
        entry = self.plan.entries.get(name)
        if entry is not None and entry.lost and self._there.lost.get(name) != entry.lost and self.plan.is_settled(name):
            self._there = replace(self._there, lost={**self._there.lost, name: entry.lost})

    def _keep_there(self) -> None:
        if self._there is not self._written:
            write_there(self._copies.root, self._there)
            self._written = self._there

    # -- files -----------------------------------------------------------------------------------

    def _ask_for_parts(self) -> None:
        if self._reading is not None:
            return
        wanted: list[tuple[str, str, int]] = []
        reads = []
        for run, file in self.plan.next(READS):
            if file in WHOLE:
                known = self._parts.get((run, file), b"")
                offset, tail = len(known), _tail(known)
            else:
                offset, tail = self._copies.tail(run, file)
            wanted.append((run, file, offset))
            reads.append([run, file, offset, tail])
        if reads:
            self._reading = self.connection.request("read", reads=reads), wanted

    def _take_parts(self) -> None:
        if self._reading is None or not self._reading[0].done:
            return
        (answer, wanted), self._reading = self._reading, None
        why = tr("They are no parts of files.")
        parts = self.connection.read(partial(unpack_parts, most=len(wanted)), self.connection.result(answer), why)
        grown: dict[str, None] = {}
        for (run, file, offset), part in zip(wanted, parts, strict=False):
            if run not in self.plan.entries:  # it was removed meanwhile
                continue
            try:
                self._take_part(run, file, offset, part)
            except ValueError:
                self.connection.fail_at(why)
            grown[run] = None
        for run in grown:
            self._after(run)

    def _after(self, run: str) -> None:
        """Tell readers of a run what has changed besides the length of its files."""
        entry = self.plan.entries[run]
        self.plan.look(run)
        self._note_lost(run)
        if not entry.live:
            self._copies.announce(run)
        if run in self._part_seen and self.plan.is_whole(run):
            self._part_seen.discard(run)
            self._told(run)

    def _take_part(self, run: str, file: str, offset: int, part: FilePart) -> None:
        if part.changed:
            self._parts.pop((run, file), None)
            if file not in WHOLE:
                self._copies.drop(run, file)
                self._part_seen.add(run)
            return
        if part.error:
            self.plan.give_up(run, file)
            return
        size, mtime = file_state(part.size, part.mtime)
        data = part.unpacked()
        if offset + len(data) > size or (not data and offset < size):
            raise ValueError
        entry = self.plan.entries[run]
        self.plan.entries[run] = replace(entry, files={**entry.files, file: (size, mtime)})
        is_complete = offset + len(data) == size
        if file not in WHOLE:
            self._copies.append(run, file, offset, data)
        elif size > MAX_WHOLE_BYTES:
            self.plan.give_up(run, file)
            return
        elif is_complete:
            self._copies.replace(run, file, self._parts.pop((run, file), b"") + data)
        elif sum(map(len, self._parts.values())) > MAX_PARTS_BYTES:
            raise ValueError
        else:
            self._parts[run, file] = self._parts.get((run, file), b"") + data
        if is_complete:
            self._copies.complete(run, file, size, mtime)


def _tail(data: bytes) -> str:
    return tail_hash(data[-TAIL_BYTES:]) if data else ""
