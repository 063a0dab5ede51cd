"""Talk to the agent of one host. Nothing here blocks without a limit, so that a window can poll as well."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

from core.hosts import protocol
from core.hosts.carriers.registry import carrier_of
from core.hosts.failures import Failure, HostError, last_line
from core.language import Message, tr
from core.system.helper_process import HelperProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.devices.device import Device
    from core.hosts.host_list import Host

ERRORS_BYTES = 16 * 1024
"""The end of what carrier and agent write to standard error that is kept."""
WAIT_S = 0.1
"""Longest wait within one poll while something is awaited."""
NAP_S = 0.01
ROUND_TRIPS = 3
"""Measurements of a clock, of which the shortest is the most exact."""


@dataclass(slots=True)
class Answer:
    """What has arrived so far for one request."""

    number: int
    items: deque[Any] = field(default_factory=deque)
    """Items of a stream; whoever reads them removes them."""
    value: Any = None
    error: Message | None = None
    """Why the agent could not do it."""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A host's clock, compared with the one here by the time that a question and its answer took."""

    offset_s: float
    """Seconds by which it is ahead of this machine's; negative if it is behind."""
    round_trip_s: float
    """Seconds for question and answer; the offset is exact to half of it."""


class Connection:
    """A connection to a host. Every method but `close` raises `HostError` once the connection is of no use.

    As a context manager it closes itself at the end of the block.
    """

    def __init__(self, host: Host, devices: Sequence[Device] = ()) -> None:
        """Start the carrier, without waiting for anything.

        `devices`: those of a run, off which the carrier keeps its other users while the connection is open.
        """
        self.host = host
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
        self._carrier = carrier_of(host.address)
        try:
            self._process = HelperProcess(self._carrier.command(host, devices), stdin=True, stderr=subprocess.PIPE)
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
            self._fail_at(str(error))
        del self._process.errors[:-ERRORS_BYTES]
        if len(self._process.output) > protocol.MAX_LINE_BYTES:
            self._fail_at(tr("It has a line of more than {limit} bytes.", limit=protocol.MAX_LINE_BYTES))
        if status is not None:
            self._fail(self._ended(status))
        self._flush()
        if not is_open and timeout_s:
            time.sleep(min(timeout_s, NAP_S))  # it has closed its output, and ends
        if self.hello and time.monotonic() - self._sent_at > protocol.ALIVE_S:
            self._send(protocol.ALIVE)

    def wait(self, is_done: Callable[[], bool], timeout_s: float, is_wanted: Callable[[], bool]) -> None:
        """Poll until this is so, for up to `timeout_s` seconds, while it is wanted."""
        deadline = time.monotonic() + timeout_s
        while not is_done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not is_wanted():
                self._fail(self._carrier.explain_silence(self.host, timeout_s))
            self.poll(min(WAIT_S, left_s))

    def request(self, ability: str, **terms: object) -> Answer:
        """Ask the agent for something, and return what its answer will be put into. The hello must have come."""
        assert self.hello is not None
        self._last += 1
        answer = self._answers[self._last] = Answer(self._last)
        self._send({"id": answer.number, "do": ability, "with": terms})
        return answer

    def cancel(self, answer: Answer) -> None:
        """End a stream. Items that are under way still arrive, until the answer is done."""
        if not answer.done:
            self._send({"cancel": answer.number})

    def result(self, answer: Answer) -> Any:  # noqa: ANN401 (JSON)
        """Return the value of an answer that is done."""
        if answer.error is not None:
            # The connection goes on: this is no failure of it.
            raise HostError(
                Failure.REFUSED,
                tr("{name} says: {error}", name=self.host.name, error=last_line(tr(answer.error))),
            )
        return answer.value

    def ask(self, ability: str, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True, **terms: object) -> Any:  # noqa: ANN401 (JSON)
        """Ask for something and wait for the answer, up to `timeout_s` seconds."""
        answer = self.request(ability, **terms)
        self.wait(lambda: answer.done, timeout_s, is_wanted)
        return self.result(answer)

    def compare_clock(self, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True) -> Clock:
        """Measure the offset of the host's clock, in up to `timeout_s` seconds for each of `ROUND_TRIPS`."""
        found = []
        for _ in range(ROUND_TRIPS):
            asked = time.time()
            there = self.ask("clock", timeout_s, is_wanted)
            answered = time.time()
            time_there = there.get("time") if isinstance(there, dict) else None
            if not isinstance(time_there, (int, float)) or not abs(time_there) < float("inf"):
                self.fail_at(tr("Its time is no number."))
            found.append(Clock(offset_s=time_there - (asked + answered) / 2, round_trip_s=answered - asked))
        return min(found, key=lambda each: abs(each.round_trip_s))

    def fail_at(self, why: str) -> NoReturn:
        """Give the connection up, since what arrived makes no sense. `why`: a sentence."""
        self._fail_at(why)

    def fail_silent(self, silent_s: float) -> NoReturn:
        """Give the connection up, since nothing has arrived for `silent_s` seconds."""
        self._fail(self._carrier.explain_silence(self.host, silent_s))

    def close(self) -> None:
        """End the carrier, and with it the agent, and wait for the carrier's end."""
        self._process.close(polite=self._failure is None)

    def __enter__(self) -> Self:
        return self

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
            answer.items.append(message["item"])
            return
        error = message.get("error")
        if "answer" not in message and not isinstance(error, (str, dict)):
            raise ValueError(tr("It has neither an answer nor an error."))
        answer.error = None if error is None else Message.read(error)
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
            self._fail(self._carrier.explain_silence(self.host, protocol.ALIVE_S))  # it does not read

    def _ended(self, status: int) -> HostError:
        errors = self._process.errors.decode(errors="replace")
        if self.hello is not None:
            return self._carrier.explain_cut(self.host, errors)
        noise = (self._noise + self._process.output).decode(errors="replace")
        return self._carrier.explain_start(self.host, status, errors, noise)

    def _fail_at(self, why: str) -> NoReturn:
        failure = Failure.NO_AGENT if self.hello is None else Failure.NONSENSE
        sentence = tr(
            "What {name} ({address}) sends makes no sense. {why} Check that nothing else writes to the output of "
            "{command} there, and that it starts Trainyard.",
            name=self.host.name,
            address=self.host.address,
            command=self.host.command,
            why=why,
        )
        self._fail(HostError(failure, sentence))

    def _fail(self, error: HostError) -> NoReturn:
        self._failure = error
        self._process.kill()
        raise error


def _other_version(host: Host, hello: protocol.Hello) -> HostError:
    from core.system.installation import version

    sentence = tr(
        "{name} ({address}) has Trainyard {version} with protocol {protocol}, which does not fit the one here: {own} "
        "with protocol {own_protocol}. Install the same version on both.",
        name=host.name,
        address=host.address,
        version=last_line(hello.version) or "?",
        own=version(),
        protocol=hello.protocol,
        own_protocol=protocol.VERSION,
    )
    return HostError(Failure.OTHER_VERSION, sentence)
