"""The runs of a host, copied here and kept up to date, so that a window can show them as it shows those here.

A thread talks to the agent over connections that may be cut, brings what arrives into the copies, and passes requests
on.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.hosts.carrier import HostError
from core.hosts.connection import SILENT_S, Follower, drain
from core.hosts.copies import Copies, Plan, folder_of, renamed
from core.hosts.protocol import unpack_readings
from core.hosts.run_files import MAX_WHOLE_BYTES, TAIL_BYTES, WHOLE, file_state, tail_hash, unpack_listing, unpack_parts
from core.language import tr, tr_noop
from core.runs.foreign import There, read_there, write_there
from core.schema.files import not_written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.devices.device import Sample
    from core.devices.helper import HelperAnswer
    from core.hosts.carrier import Failure
    from core.hosts.connection import Answer, Clock, Connection
    from core.hosts.host_list import Host
    from core.hosts.protocol import Hello
    from core.hosts.run_files import FilePart, Listing


READS = 128
"""Files that are asked for at once."""
BEAT_S = 3.0
"""Seconds without anything from the agent after which it is asked whether it is there."""
READINGS_S = 0.5
"""Seconds between two readings of the devices there."""
MAX_READINGS = 1000
SAMPLE_BYTES = 256
"""Bytes that a sample takes here: one that has not changed arrives as `null`."""
MAX_PARTS_BYTES = 64 * 1024 * 1024
"""Bytes of files that have arrived in part, and are replaced as a whole."""
PERIOD_S = 0.2
"""Seconds between two looks of the agent at its runs."""


class Link:
    """A connection that keeps copies up to date.

    Methods raise `HostError` once it is of no use, and `OSError` where the copies cannot be written.
    """

    def __init__(
        self, connection: Connection, copies: Copies, readings: deque[HelperAnswer], reread: deque[str]
    ) -> None:
        """`readings`, `reread`: as in `Mirror`, to be added to."""
        self.connection = connection
        self.plan = Plan(copies)
        self.is_complete = False
        """Whether all runs of the host are known."""
        self._copies, self._readings, self._reread = copies, readings, reread
        self._runs: Answer | None = None
        self._reading: tuple[Answer, list[tuple[str, str, int]]] | None = None
        """The parts that were asked for, and from which offsets."""
        self._beat: Answer | None = None
        self._stream: Answer | None = None
        """The readings of the host's devices."""
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
            assert self.connection.hello is not None
            self._runs = self.connection.request("runs", period_s=PERIOD_S)
            self._there = replace(
                read_there(self._copies.root), host=self.connection.host.name, folder=self.connection.hello.runs,
                cut_since=None,
            )
        while self._runs.items:
            self._take_listing(self._runs.items.popleft())
        if self._runs.done:
            self.connection.result(self._runs)  # raises why there are no more
            self._runs = None
        self._take_parts()
        if self._reading is None:
            self._ask_for_parts()
        if self._there is not self._written:
            write_there(self._copies.root, self._there)
            self._written = self._there

    def _check_silence(self) -> None:
        silent_s = time.monotonic() - self.connection.heard_at
        if self._beat is not None and self._beat.done:
            self._beat = None
        if silent_s > BEAT_S and self._beat is None:
            self._beat = self.connection.request("clock")
        if silent_s > SILENT_S:
            self.connection.fail_silent(SILENT_S)

    def _take_readings(self) -> None:
        if self._stream is None:
            self._stream = self.connection.request("readings", period_s=READINGS_S)
            self._stream.kept = self._readings
        self.connection.take(self._stream, partial(self._unpack, self._stream), tr("They are no devices."))
        if self._stream.done:
            self.connection.result(self._stream)
            self._stream = None

    def _unpack(self, stream: Answer, item: Any) -> list[HelperAnswer]:  # noqa: ANN401 (JSON)
        found = unpack_readings(item, self._previous)
        self._previous = found.samples
        stream.held_bytes += SAMPLE_BYTES * len(found.samples)
        return [found]

    # -- runs ------------------------------------------------------------------------------------

    def _take_listing(self, item: Any) -> None:  # noqa: ANN401 (JSON)
        listing = self.connection.read(unpack_listing, item, tr("They are no runs."))
        for old, new in renamed(self.plan.entries, listing.gone, listing.runs):
            self._copies.rename(old, new)
        for name in listing.gone:
            self._forget(name)
        for name, entry in listing.runs.items():
            if not self.plan.put(name, entry):
                continue
            self._copies.note_life(name, live=entry.live)
            if not self.plan.is_settled(name) or not (entry.live or self.plan.is_whole(name)):
                self._part_seen.add(name)
        self._note_there(listing)
        if listing.complete:
            self.is_complete = True
            for name in set(self._copies.names()) - self.plan.entries.keys():
                self._forget(name)

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
        self._there = replace(self._there, lost=lost, stopped=stopped, owners=owners)
        for name in self.plan.entries if listing.complete else listing.runs:
            self._note_lost(name)

    def _note_lost(self, name: str) -> None:
        entry = self.plan.entries.get(name)
        if entry is not None and entry.lost and self._there.lost.get(name) != entry.lost and self.plan.is_settled(name):
            self._there = replace(self._there, lost={**self._there.lost, name: entry.lost})

    # -- files -----------------------------------------------------------------------------------

    def _ask_for_parts(self) -> None:
        wanted: list[tuple[str, str, int]] = []
        reads = []
        for run, file in self.plan.next(READS):
            if file in WHOLE:
                known = self._parts.get((run, file), b"")
                offset, tail = len(known), tail_hash(known[-TAIL_BYTES:])
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
            self._reread.append(run)

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


log = logging.getLogger(__name__)

TURN_S = 0.05
"""Longest wait of one turn: so long may a request wait."""
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0
"""Seconds between the end of a connection and the next attempt: at first, and at most. It is doubled each time."""
STEADY_S = 20.0
"""Seconds for which a connection must last for the pause to be the first one again."""
DISK_PAUSE_S = 3.0
"""Seconds until the copies are written again after that was impossible."""
KEEP_S = 1.0
"""Seconds between two attempts to take the copies over from another window."""
CLOSE_S = 3.0
"""Longest wait for the end of the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorState:
    """The state of the connection to a host. Times are unix seconds."""

    is_connected: bool = False
    was_connected: bool = False
    cut_since: float | None = None
    """Since when there is none; None while there is one, and before the first attempt has failed."""
    failure: Failure | None = None
    why: str = ""
    """Why the last connection ended, or could not be made: a sentence."""
    next_try: float | None = None
    """When the next attempt begins; None while there is a connection, or an attempt is under way."""
    hello: Hello | None = None
    clock: Clock | None = None
    """The clock there, compared with the one here."""
    is_complete: bool = False
    """Whether all runs of the host are known here."""
    left: int = 0
    """Runs of which files are still to be copied."""
    problem: str = ""
    """Why the copies are not up to date although there is a connection: a sentence."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request to the agent, and its answer."""

    ability: str
    terms: dict[str, Any]
    done: bool = False
    value: Any = None
    error: str = ""
    """Why it was not done, or may not have been: a sentence."""


class Mirror(Follower):
    """The runs of one host. Every method may be called by any thread, and none blocks but `close`."""

    def __init__(self, host: Host) -> None:
        waits = FIRST_PAUSE_S, LAST_PAUSE_S
        super().__init__(host, self._talk, self._take_note, waits=waits, steady_s=STEADY_S)
        self.host = host
        self.root = folder_of(host)
        """The folder of the copies. It may not exist before the first connection."""
        self.state = MirrorState()
        self._copies = Copies(self.root)
        self._asked: deque[Asked] = deque()
        self._reread: deque[str] = deque()
        """Names of runs whose copies must be read again from their beginning."""
        self._readings: deque[HelperAnswer] = deque(maxlen=MAX_READINGS)
        """The readings of the host's devices that were not fetched yet, in order."""
        self._wanted: frozenset[str] = frozenset()
        self._keep_at = self._write_at = 0.0

    def ask(self, ability: str, **terms: object) -> Asked:
        """Have the agent do something. Without a connection it is refused at once: nothing is done much later."""
        asked = Asked(ability, terms)
        if self.state.is_connected:
            self._asked.append(asked)
        else:
            why = tr_noop("There is no connection to {host}, so nothing was asked of it. Try again when there is one.")
            asked.error, asked.done = tr(why, host=self.host.name), True
        return asked

    def want(self, runs: Iterable[str]) -> None:
        """Copy the measurements of these runs before those of others."""
        self._wanted = frozenset(runs)

    def fetch_readings(self) -> list[HelperAnswer]:
        """Return the readings that have arrived since the last call."""
        return drain(self._readings)

    def fetch_reread(self) -> list[str]:
        """Return the names of runs whose copies must be read again from their beginning, each once."""
        return list(dict.fromkeys(drain(self._reread)))

    def close(self, *, wait: bool = True) -> None:
        """End the connection, and wait a moment for that. Nothing happens to the runs there."""
        self.end()
        if wait and self.is_alive():
            self.join(CLOSE_S)

    # -- the thread ------------------------------------------------------------------------------

    def _talk(self, connection: Connection, clock: Clock) -> None:
        link = Link(connection, self._copies, self._readings, self._reread)
        under_way: dict[Asked, Answer] = {}
        self._set(hello=connection.hello, clock=clock)
        try:
            while connection.is_wanted():
                self._turn(link, under_way)
        finally:
            if connection.is_wanted() and self._copies.is_kept:
                there = replace(read_there(self.root), host=self.host.name, cut_since=time.time())
                try:
                    write_there(self.root, there)
                except OSError:
                    log.warning("the state of %s could not be kept", self.host.name)
            self._copies.leave()  # another window may have a connection
            self._give_up((*under_way, *drain(self._asked)))

    def _take_note(self, error: HostError | None) -> bool:
        if error is None:
            self._set(next_try=None)
            return True
        self._set(
            is_connected=False, cut_since=self.state.cut_since or time.time(), failure=error.failure, why=str(error),
            next_try=time.time() + self.wait_s, problem="",
        )
        self._give_up(drain(self._asked))
        return True

    def _give_up(self, requests: Iterable[Asked]) -> None:
        """Answer requests whose connection was cut."""
        for asked in requests:
            asked.error = tr(
                "The connection to {host} was cut before it answered. Whether it was done is seen when the connection "
                "is back.", host=self.host.name,
            )
            asked.done = True

    def _turn(self, link: Link, under_way: dict[Asked, Answer]) -> None:
        problem = self._bring_up_to_date(link)
        for asked in drain(self._asked):
            under_way[asked] = link.connection.request(asked.ability, **asked.terms)
        for asked, answer in list(under_way.items()):
            if answer.done:
                del under_way[asked]
                try:
                    asked.value = link.connection.result(answer)
                except HostError as error:
                    asked.error = str(error)
                asked.done = True
        self._set(
            is_connected=True, was_connected=True, cut_since=None, failure=None, why="", next_try=None,
            is_complete=link.is_complete or not self._copies.is_kept, left=link.plan.left(), problem=problem,
        )

    def _bring_up_to_date(self, link: Link) -> str:
        """Take what has arrived; return why the copies cannot be written, or the empty string."""
        link.plan.wanted = self._wanted
        now = time.monotonic()
        try:
            if not self._copies.is_kept and now >= self._keep_at:
                self._keep_at = now + KEEP_S
                self._copies.keep()
            link.poll(TURN_S, writes=now >= self._write_at)
        except OSError as error:
            self._write_at = now + DISK_PAUSE_S
            return not_written(
                self.root, error, otherwise=tr("What is shown of {host} stays as it was.", host=self.host.name),
                if_full=tr("What is shown of {host} stays as it was. Free some space here.", host=self.host.name),
            )
        if now < self._write_at:
            return self.state.problem
        if link.plan.is_full():
            return tr("The copies of {host} have all the space that they may take. Measurements of older runs stay "
                      "there.", host=self.host.name)
        return ""

    def _set(self, **changes: Any) -> None:  # noqa: ANN401 (fields of different types)
        new = replace(self.state, **changes)
        if new != self.state:
            self.state = new
