"""Talk to the agent of one host, once or over cuts.

A connection blocks no longer than a given time, so that a window can poll it as well.
"""

from __future__ import annotations

import logging
import math
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, NoReturn, TypeVar

from core.devices.device import Device
from core.hosts import protocol
from core.hosts.carrier import Failure, HostError, last_line
from core.hosts.host_list import Host
from core.language import Message, tr, tr_noop
from core.schema.codec import decode
from core.system.helper_process import HelperProcess
from core.text import duration

log = logging.getLogger(__name__)
Found = TypeVar("Found")

HELLO_S = 30.0
"""Longest wait for the connection, the login, and the start of Trainyard there."""
ANSWER_S = 30.0
"""Longest wait for one answer."""
SILENT_S = 12.0
"""Seconds without a word after which a connection counts as cut: an agent that is stopped says nothing."""
DEADLINE_S = 300.0
"""Seconds to wait for the answer to a request: the removal of large checkpoints takes minutes."""
MAX_HELD_BYTES = 16 * 1024 * 1024
"""Bytes of stream items that may wait to be read; more of them end the connection."""
MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Bytes of stream items after which what was made of them is dropped, unless it was fetched."""
ERRORS_BYTES = 16 * 1024
"""The end of what carrier and agent write to standard error that is kept."""
WAIT_S = 0.1
"""Longest wait within one poll while something is awaited."""
NAP_S = 0.01
MAX_FAILURES = 20
"""Failures in a row that are counted."""
CLOCK_TOLERANCE_S = 2.0
"""Seconds of a clock's offset from which on a sentence reports it."""
SET_CLOCK = "timedatectl set-ntp true"
ROUND_TRIPS = 3
"""Measurements of a clock, of which the shortest is the most exact."""


@dataclass(slots=True)
class Answer:
    """What has arrived so far for one request."""

    number: int
    until: float = math.inf
    """When it must be done, in seconds of `time.monotonic`; inf for a stream."""
    items: deque[Any] = field(default_factory=deque)
    """Items of a stream; whoever reads them removes them."""
    kept: deque[Any] = field(default_factory=deque)
    """What `Connection.take` has made of them; whoever fetches it removes it."""
    value: Any = None
    error: Message | None = None
    """Why the agent could not do it."""
    done: bool = False
    is_wanted: bool = True
    """Whether it was not cancelled."""
    is_late: bool = False
    """Whether no answer came before the deadline."""
    held_bytes: int = 0
    """Bytes of `items` and for `kept`, and of those before while these were never all taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeThere:
    """An answer to `clock`."""

    time: float
    """In unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A host's clock, compared with the one here by the time that a question and its answer took."""

    offset_s: float
    """Seconds by which it is ahead of this machine's; negative if it is behind."""
    round_trip_s: float
    """Seconds for question and answer; the offset is exact to half of it."""


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


def drain(queue: deque[Found]) -> list[Found]:
    """Remove what is in a queue and return it. Another thread may add to it, and clear it."""
    found: list[Found] = []
    with suppress(IndexError):
        found.extend(queue.popleft() for _ in range(len(queue)))
    return found


class Connection(AbstractContextManager["Connection"]):
    """A connection to a host. Every method but `close` raises `HostError` once the connection is of no use.

    As a context manager it closes itself at the end of the block.
    """

    def __init__(
        self, host: Host, devices: Sequence[Device] = (), *, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Start the carrier, without waiting for anything.

        `devices`: those of a run, which a shared carrier reserves while the connection is open. `is_wanted`: waits end
        with an error once it returns False.
        """
        self.host, self.is_wanted = host, is_wanted
        self.hello: protocol.Hello | None = None
        """What the agent has said first; None until then."""
        self._noise = bytearray()
        self._answers: dict[int, Answer] = {}
        self._last = 0
        self._failure: HostError | None = None
        self._sent_at = self.heard_at = self._written_at = time.monotonic()
        """When something was last sent, and received."""
        self._unsent = bytearray()
        """What the carrier has not taken yet: a long request does not fit into its pipe at once."""
        self._carrier = host.carrier
        try:
            self._process = HelperProcess(
                self._carrier.command_line(devices), cwd=self._carrier.cwd, environment=self._carrier.environment(),
                stdin=True, stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise self._carrier.not_started(error) from error

    @property
    def pid(self) -> int:
        """The process id of the carrier."""
        return self._process.pid

    def poll(self, timeout_s: float = 0.0) -> None:
        """Take what has arrived, and wait up to `timeout_s` seconds for something to arrive."""
        if self._failure is not None:
            raise self._failure
        status = self._process.exit_code()  # before reading, so that everything it wrote is read
        known = len(self._process.output)
        try:
            is_open = self._process.receive(timeout_s if status is None else 0.0)
            if len(self._process.output) > known:
                self.heard_at = time.monotonic()
            for line in self._process.read_lines():
                self._take(line)
        except ValueError as error:
            self.fail_at(str(error))
        del self._process.errors[:-ERRORS_BYTES]
        if len(self._process.output) > protocol.MAX_LINE_BYTES:
            self.fail_at(tr("It has a line of more than {limit} bytes.", limit=protocol.MAX_LINE_BYTES))
        if status is not None:
            self._fail(self._ended(status))
        self._give_up_late()
        self._flush()
        if not is_open and timeout_s:
            time.sleep(min(timeout_s, NAP_S))  # it has closed its output, and ends
        if self.hello and time.monotonic() - self._sent_at > protocol.ALIVE_S:
            self._send(protocol.ALIVE)

    def _give_up_late(self) -> None:
        for answer in self._answers.values():
            if time.monotonic() > answer.until:
                answer.is_late = answer.done = True

    def wait(self, is_done: Callable[[], object], timeout_s: float) -> None:
        """Poll until this is so, for up to `timeout_s` seconds, while the connection is wanted."""
        deadline = time.monotonic() + timeout_s
        while not is_done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self.is_wanted():
                self._fail(self._carrier.explain_silence(timeout_s))
            self.poll(min(WAIT_S, left_s))

    def request(self, ability: str, **terms: object) -> Answer:
        """Ask the agent for something, and return what its answer will be put into. The hello must have come."""
        assert self.hello is not None
        self._last += 1
        until = math.inf if ability in protocol.STREAMS else time.monotonic() + DEADLINE_S
        answer = self._answers[self._last] = Answer(self._last, until)
        self._send({"id": answer.number, "do": ability, "with": terms})
        return answer

    def cancel(self, answer: Answer) -> None:
        """End a stream. Items that are under way are dropped, until the answer is done."""
        if not answer.done:
            answer.is_wanted, answer.until = False, time.monotonic() + DEADLINE_S
            answer.items.clear()
            self._send({"cancel": answer.number})

    def result(self, answer: Answer) -> Any:  # noqa: ANN401 (JSON)
        """Return the value of an answer that is done."""
        if answer.is_late:
            late = tr("{name} has not answered this for {duration}. Whether it was done is seen when it answers.",
                      name=self.host.name, duration=duration(DEADLINE_S))
            raise HostError(Failure.NO_ANSWER, late)
        if answer.error is not None:
            # The connection goes on: this is no failure of it.
            sentence = tr("{name} says: {error}", name=self.host.name, error=last_line(tr(answer.error)))
            raise HostError(Failure.REFUSED, sentence)
        return answer.value

    def ask(self, ability: str, timeout_s: float | None = None, **terms: object) -> Any:  # noqa: ANN401 (JSON)
        """Ask for something and wait for the answer, up to `timeout_s` seconds (default: `ANSWER_S`)."""
        answer = self.request(ability, **terms)
        self.wait(lambda: answer.done, ANSWER_S if timeout_s is None else timeout_s)
        return self.result(answer)

    def await_hello(self) -> None:
        """Wait until the agent answers, up to `HELLO_S` seconds."""
        self.wait(lambda: self.hello is not None, HELLO_S)

    def compare_clock(self) -> Clock:
        """Measure the offset of the host's clock, by `ROUND_TRIPS` questions."""
        found = []
        for _ in range(ROUND_TRIPS):
            asked = time.time()
            answer = self.ask("clock")
            answered = time.time()
            there = self.read(lambda data: decode(TimeThere, data), answer, tr("Its time is no number."))
            found.append(Clock(offset_s=there.time - (asked + answered) / 2, round_trip_s=answered - asked))
        return min(found, key=lambda each: abs(each.round_trip_s))

    def read(self, unpack: Callable[[Any], Found], found: Any, why: str) -> Found:  # noqa: ANN401 (JSON)
        """Return what `unpack` makes of something that has arrived. `why`: the sentence if it makes no sense."""
        try:
            return unpack(found)
        except (LookupError, TypeError, ValueError):
            self.fail_at(why)

    def take(self, stream: Answer, unpack: Callable[[Any], Iterable[Any]], why: str) -> None:
        """Add what `unpack` makes of the items of a stream to `kept`, and drop what was there if that is too much."""
        if stream.held_bytes > MAX_KEPT_BYTES:
            stream.kept.clear()
            stream.held_bytes = 0
        while stream.items:
            stream.kept.extend(self.read(unpack, stream.items.popleft(), why))

    def fail_at(self, why: str) -> NoReturn:
        """Give the connection up, since what arrived makes no sense. `why`: a sentence."""
        failure = Failure.NO_AGENT if self.hello is None else Failure.NONSENSE
        sentence = tr(
            "What {name} ({address}) sends makes no sense. {why} Check that nothing else writes to the output of "
            "{command} there, and that it starts Trainyard.", why=why, name=self.host.name, address=self.host.address,
            command=self.host.command,
        )
        self._fail(HostError(failure, sentence))

    def fail_silent(self, silent_s: float) -> NoReturn:
        """Give the connection up, since nothing has arrived for `silent_s` seconds."""
        self._fail(self._carrier.explain_silence(silent_s))

    def close(self) -> None:
        """End the carrier, and with it the agent, and wait for the carrier's end."""
        self._process.close(polite=self._failure is None)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, line: bytes) -> None:
        """Take a line. Raises `ValueError` with a sentence for one that makes no sense."""
        if self.hello is None:
            self._take_first(line)
            return
        message = protocol.decode(line)
        answer = self._answers.get(number) if isinstance(number := message.get("id"), int) else None
        if answer is None:
            raise ValueError(tr("It answers what was not asked."))
        if "item" in message:
            if not answer.is_wanted:
                return
            answer.held_bytes = (answer.held_bytes if answer.items or answer.kept else 0) + len(line)
            if answer.until < math.inf or answer.held_bytes > MAX_HELD_BYTES:
                raise ValueError(tr("It sends more than was asked for."))
            answer.items.append(message["item"])
            return
        error = message.get("error")
        try:
            answer.error = None if error is None and "answer" in message else Message.read(error)
        except ValueError:
            raise ValueError(tr("It has neither an answer nor an error.")) from None
        answer.value, answer.done = message.get("answer"), True
        del self._answers[answer.number]

    def _take_first(self, line: bytes) -> None:
        hello = protocol.hello_of(line)
        if hello is None:
            self._noise += line + b"\n"
            if len(self._noise) > protocol.MAX_NOISE_BYTES:
                raise ValueError(tr("It writes, but does not answer as Trainyard."))
            return
        if hello.protocol != protocol.VERSION:
            self._fail(_other_version(self.host, hello))
        self.hello = hello

    def _send(self, message: dict[str, Any]) -> None:
        self._sent_at = time.monotonic()
        if not self._unsent:
            self._written_at = self._sent_at
        self._unsent += protocol.encode(message)
        self._flush()

    def _flush(self) -> None:
        """Write what the carrier takes without waiting."""
        if not self._unsent:
            return
        if written := self._process.send_some(self._unsent):
            del self._unsent[:written]
            self._written_at = time.monotonic()
        elif time.monotonic() - self._written_at > protocol.ALIVE_S and self._process.exit_code() is None:
            self._fail(self._carrier.explain_silence(protocol.ALIVE_S))  # it does not read

    def _ended(self, status: int) -> HostError:
        errors = self._process.errors.decode(errors="replace")
        if self.hello is not None:
            return self._carrier.explain_cut(errors)
        noise = (self._noise + self._process.output).decode(errors="replace")
        return self._carrier.explain_start(status, errors, noise)

    def _fail(self, error: HostError) -> NoReturn:
        self._failure = error
        self._process.kill()
        raise error


class Follower(Thread):
    """Talks to a host on a thread of its own, and connects again after each cut.

    It waits longer after each attempt that fails.
    """

    def __init__(
        self,
        host: Host,
        converse: Callable[[Connection, Clock], None],
        note: Callable[[HostError | None], bool],
        *,
        waits: tuple[float, float],
        steady_s: float,
    ) -> None:
        """`converse`: uses a connection until that fails, or is not wanted. It also gets the clock there.

        `note`: called with None when an attempt begins, and with an error when it has failed, or when the connection
        was cut. Returns whether the next attempt comes by itself, or only after `retry`.
        `waits`: seconds until the second attempt, and at most. `steady_s`: seconds of a connection after which its end
        counts as a first failure.
        """
        super().__init__(name=f"host-{host.name}", daemon=True)
        self.waits = waits
        self._host, self._converse, self._note, self._steady_s = host, converse, note, steady_s
        self._failures = 0
        self._connected_at = math.inf
        """When the latest attempt led to a connection, in seconds of `time.monotonic`; inf if it did not."""
        self._unwanted, self._woken = Event(), Event()

    def is_wanted(self) -> bool:
        """Return whether it was not ended."""
        return not self._unwanted.is_set()

    @property
    def wait_s(self) -> float:
        """Seconds from the next failure to the next attempt."""
        first, most = self.waits
        return float(min(first * 2**self._failures, most))

    def retry(self) -> None:
        """Do not wait any longer for the next attempt."""
        self._woken.set()

    def end(self) -> None:
        """End the connection soon, and make no other."""
        self._unwanted.set()
        self._woken.set()

    def run(self) -> None:
        """Talk to the host until it is not wanted any more; called by the thread."""
        while self.is_wanted():
            self._note(None)
            self._connected_at = math.inf
            error = self._failure()
            self._woken.clear()  # a `retry` while it was connected is for no later failure
            if not self.is_wanted():
                return
            if time.monotonic() - self._connected_at > self._steady_s:
                self._failures = 0
            is_passing = self._note(error)
            is_woken = self._woken.wait(self.wait_s if is_passing else None)
            self._woken.clear()
            self._failures = 0 if is_woken else min(self._failures + 1, MAX_FAILURES)

    def _failure(self) -> HostError:
        """Talk to the host until that fails or is not wanted; return why."""
        try:
            with Connection(self._host, is_wanted=self.is_wanted) as connection:
                connection.await_hello()
                clock = connection.compare_clock()
                self._connected_at = time.monotonic()
                self._converse(connection, clock)
        except HostError as error:
            return error
        except Exception as error:  # an error of our own ends this connection, and not the window's view of the host
            log.exception("The connection to %s failed", self._host.name)
            return HostError(Failure.NONSENSE, tr("An error of Trainyard here: {kind}: {error}",
                                                  kind=type(error).__name__, error=error))
        return HostError(Failure.CUT, "")


def _other_version(host: Host, hello: protocol.Hello) -> HostError:
    from core.system.installation import version

    sentence = tr(
        "{name} ({address}) has Trainyard {version} with protocol {protocol}, which does not fit the one here: {own} "
        "with protocol {own_protocol}. Install the same version on both.", name=host.name, address=host.address,
        version=last_line(hello.version) or "?", own=version(), protocol=hello.protocol, own_protocol=protocol.VERSION,
    )
    return HostError(Failure.OTHER_VERSION, sentence)
