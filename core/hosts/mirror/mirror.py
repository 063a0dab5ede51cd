"""Keep the copies of a host's runs up to date on a thread, over connections that may be cut, and pass requests on."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.hosts.connection import Follower
from core.hosts.failures import HostError
from core.hosts.mirror.copies import Copies, folder_of
from core.hosts.mirror.link import Link
from core.language import tr
from core.runs.foreign import read_there, write_there
from core.schema.files import not_written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.devices.helper import HelperAnswer
    from core.hosts.connection import Answer, Clock, Connection
    from core.hosts.failures import Failure
    from core.hosts.host_list import Host
    from core.hosts.protocol import Hello

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
    """Whether there was a connection before."""
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


class Mirror:
    """The runs of one host. Every method may be called by any thread, and none blocks but `close`."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.root = folder_of(host)
        """The folder of the copies. It may not exist before the first connection."""
        self.state = MirrorState()
        self._copies = Copies(self.root)
        self._asked: deque[Asked] = deque()
        self._reread: deque[str] = deque()
        self._readings: deque[HelperAnswer] = deque(maxlen=1000)
        self._wanted: frozenset[str] = frozenset()
        self._keep_at = self._write_at = 0.0
        self.follower = Follower(
            host, self._converse, self._note, waits=(FIRST_PAUSE_S, LAST_PAUSE_S), steady_s=STEADY_S
        )
        """The thread."""

    def start(self) -> None:
        """Begin."""
        self.follower.start()

    def ask(self, ability: str, **terms: object) -> Asked:
        """Have the agent do something. Without a connection it is refused at once: nothing is done much later."""
        asked = Asked(ability, terms)
        if self.state.is_connected:
            self._asked.append(asked)
        else:
            asked.error, asked.done = self._not_connected(), True
        return asked

    def want(self, runs: Iterable[str]) -> None:
        """Copy the measurements of these runs before those of others."""
        self._wanted = frozenset(runs)

    def retry(self) -> None:
        """Try to connect now."""
        self.follower.retry()

    def fetch_readings(self) -> list[HelperAnswer]:
        """Return the readings that have arrived since the last call."""
        return _drain(self._readings)

    def fetch_reread(self) -> list[str]:
        """Return the names of runs whose copies must be read again from their beginning, each once."""
        return list(dict.fromkeys(_drain(self._reread)))

    @property
    def is_closed(self) -> bool:
        """Whether nothing is done any more."""
        return not self.follower.is_wanted()

    def close(self, *, wait: bool = True) -> None:
        """End the connection, and wait a moment for that. Nothing happens to the runs there."""
        self.follower.end()
        if wait:
            self.follower.join(CLOSE_S)

    # -- the thread ------------------------------------------------------------------------------

    def _converse(self, connection: Connection, clock: Clock) -> None:
        link = Link(connection, self._copies, self._reread.append)
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
            self._give_up((*under_way, *_drain(self._asked)))

    def _note(self, error: HostError | None) -> bool:
        if error is None:
            self._set(next_try=None)
            return True
        self._set(
            is_connected=False, cut_since=self.state.cut_since or time.time(), failure=error.failure, why=str(error),
            next_try=time.time() + self.follower.wait_s, problem="",
        )  # fmt: skip
        self._give_up(_drain(self._asked))
        return True

    def _give_up(self, requests: Iterable[Asked]) -> None:
        """Answer requests whose connection was cut."""
        for asked in requests:
            asked.error = tr(
                "The connection to {host} was cut before it answered. Whether it was done is seen when the connection "
                "is back.",
                host=self.host.name,
            )
            asked.done = True

    def _turn(self, link: Link, under_way: dict[Asked, Answer]) -> None:
        problem = self._bring_up_to_date(link)
        for asked in _drain(self._asked):
            under_way[asked] = link.connection.request(asked.ability, **asked.terms)
        for asked, answer in list(under_way.items()):
            if answer.done:
                del under_way[asked]
                try:
                    asked.value = link.connection.result(answer)
                except HostError as error:
                    asked.error = str(error)
                asked.done = True
        self._readings.extend(_drain(link.readings))
        self._set(
            is_connected=True, was_connected=True, cut_since=None, failure=None, why="", next_try=None,
            is_complete=link.is_complete or not self._copies.is_kept, left=link.plan.left(), problem=problem,
        )  # fmt: skip

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
            )  # fmt: skip
        if now < self._write_at:
            return self.state.problem
        if link.plan.is_full():
            return tr(
                "The copies of {host} have all the space that they may take. Measurements of older runs stay there.",
                host=self.host.name,
            )
        return ""

    def _set(self, **changes: Any) -> None:  # noqa: ANN401 (fields of different types)
        new = replace(self.state, **changes)
        if new != self.state:
            self.state = new

    def _not_connected(self) -> str:
        return tr("There is no connection to {host}, so nothing was asked of it. Try again when there is one.",
                  host=self.host.name)  # fmt: skip


def _drain(queue: deque[Any]) -> list[Any]:
    found = []
    while queue:
        found.append(queue.popleft())
    return found
