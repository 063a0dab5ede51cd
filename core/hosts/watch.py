"""Follow a host on a thread of its own: whether it answers, its devices, their readings, and what uses them.

A host that stops answering is asked again after a while, then after longer and longer times. Where only the user can
change something, such as a key that is refused, it is asked again when the user wants it: a server may shut out
addresses from which logins fail again and again.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from core.devices.device import Survey, device_here, sample_here
from core.hosts.connection import Connection, Follower
from core.hosts.exchange import HostUses, unpack_readings, unpack_uses
from core.hosts.failures import Failure, HostError
from core.hosts.inquiry import clock_problem
from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Sample
    from core.devices.helper import HelperAnswer
    from core.hosts.connection import Clock
    from core.hosts.host_list import Host
    from core.hosts.protocol import Hello

PERIOD_S = 1.0
"""Seconds between two readings of a device."""
USES_PERIOD_S = 5.0
"""Seconds between two looks at what uses the devices there."""
POLL_S = 0.25
"""Longest wait for something to arrive: a watch that is ended ends within this time."""
CLOCK_PERIOD_S = 300.0
"""Seconds between two measurements of the clock there."""
FIRST_WAIT_S, MAX_WAIT_S = 2.0, 60.0
"""Seconds until a host is asked again, after the first failure and at most. Each failure doubles them."""
STEADY_S = 30.0
"""Seconds of a connection after which its end counts as a first failure."""
MAX_SAMPLES = 10_000
"""Samples that are kept until they are fetched."""
NO_USES = HostUses(by_device={})
PASSING = frozenset(
    {
        Failure.UNKNOWN_NAME,
        Failure.UNREACHABLE,
        Failure.CLOSED_PORT,
        Failure.SSH,
        Failure.NO_ANSWER,
        Failure.CUT,
        Failure.REFUSED,
    }
)
"""Failures that may pass by themselves: a network that comes back, a machine that is switched on."""


class Phase(Enum):
    """What a host does at the moment."""

    CONNECTING = "connecting"
    """It is asked, and has not answered yet."""
    REACHABLE = "reachable"
    NOT_REACHABLE = "not reachable"
    """It is asked again later, or when the user wants it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What is known of a host."""

    host: Host
    phase: Phase = Phase.CONNECTING
    error: HostError | None = None
    """Why it is not reachable."""
    hello: Hello | None = None
    clock: Clock | None = None
    survey: Survey = field(default_factory=Survey)
    """Its devices, whose ids and labels name the host, and readings with times by the clock here. The devices of a host
    that is not reachable any more are the last ones that are known, without readings."""
    uses: HostUses = NO_USES
    """What uses the devices, by their ids there."""

    @property
    def clock_problem(self) -> str:
        """A sentence if the clock there is off; else the empty string."""
        return clock_problem(self.host.name, self.clock)


class HostWatch:
    """Follows one host between `begin` and `end`. Its methods do not block, except `join`."""

    def __init__(self, host: Host, *, period_s: float = PERIOD_S) -> None:
        self.state = HostState(host=host)
        """Replaced as a whole by the thread."""
        self._period_s = period_s
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._taken_at: dict[str, float] = {}
        """By device, the time of the sample that was fetched last."""
        self._follower: Follower | None = None
        self._ending: list[Follower] = []

    @property
    def host(self) -> Host:
        """The host."""
        return self.state.host

    def begin(self) -> None:
        """Ask the host from now on."""
        if self._follower is None:
            self.state = replace(self.state, survey=_without_samples(self.state.survey))  # they may be hours old
            if self.state.error is None:
                self.state = replace(self.state, phase=Phase.CONNECTING)
            self._follower = Follower(
                self.host, self._converse, self._note, waits=(FIRST_WAIT_S, MAX_WAIT_S), steady_s=STEADY_S
            )
            self._follower.start()

    def end(self) -> None:
        """Ask the host no more. What is known of it stays."""
        if self._follower is not None:
            self._follower.end()
            self._ending = [each for each in self._ending if each.is_alive]
            self._ending.append(self._follower)
            self._follower = None

    def retry(self) -> None:
        """Ask a host that is not reachable again, now."""
        if self._follower is not None and self.state.phase is Phase.NOT_REACHABLE:
            self.state = replace(self.state, phase=Phase.CONNECTING)
            self._follower.retry()

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, each later than those before of the same device.

        The clock there may be set back while the host is followed.
        """
        fresh = []
        for sample in [self._samples.popleft() for _ in range(len(self._samples))]:
            if sample.time > self._taken_at.get(sample.device_id, float("-inf")):
                self._taken_at[sample.device_id] = sample.time
                fresh.append(sample)
        return fresh

    def join(self, timeout_s: float) -> None:
        """Wait until nothing is left of the connection, up to `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        for each in self._ending:
            each.join(max(0.0, deadline - time.monotonic()))

    # -- the thread ------------------------------------------------------------------------------

    def _note(self, error: HostError | None) -> bool:
        if error is None:
            return True
        survey = _without_samples(self.state.survey)
        self.state = replace(
            self.state, phase=Phase.NOT_REACHABLE, error=error, clock=None, survey=survey, uses=NO_USES
        )
        return error.failure in PASSING

    def _converse(self, connection: Connection, clock: Clock) -> None:
        measured_at = time.monotonic()
        self._change(connection, phase=Phase.REACHABLE, error=None, hello=connection.hello, clock=clock)
        stream = connection.request("readings", period_s=self._period_s, uses_period_s=USES_PERIOD_S)
        readings = _Readings(self.host.name)
        while connection.is_wanted():
            connection.poll(POLL_S)
            if stream.done:
                connection.result(stream)
                connection.fail_at(tr("Its readings have ended."))
            while stream.items:
                take = partial(self._take, connection, readings, clock.offset_s)
                connection.read(take, stream.items.popleft(), tr("They are no devices."))
            if time.monotonic() - measured_at > CLOCK_PERIOD_S:
                clock, measured_at = connection.compare_clock(), time.monotonic()
                self._change(connection, clock=clock)

    def _take(self, connection: Connection, readings: _Readings, offset_s: float, item: Any) -> None:  # noqa: ANN401 (JSON)
        """Take an item of the stream. Raises `ValueError` for nonsense."""
        self._samples.extend(readings.add(item, offset_s))
        self._change(connection, survey=readings.survey)
        if "uses" in item:
            self._change(connection, uses=unpack_uses(item))

    def _change(self, connection: Connection, **changes: Any) -> None:  # noqa: ANN401 (fields of `HostState`)
        if connection.is_wanted():
            self.state = replace(self.state, **changes)


class _Readings:
    """Makes surveys of the readings that arrive, each of which leaves out what has not changed since the last."""

    def __init__(self, host: str) -> None:
        self.survey = Survey()
        self._host = host
        self._sent: Sequence[Sample] = ()
        """The latest samples as they were sent."""
        self._known: dict[str, tuple[float, Sample]] = {}
        """By the ids there, the latest samples under the names here, and when they were taken by the clock there."""

    def add(self, item: object, offset_s: float) -> list[Sample]:
        """Take an item and return the samples that are newer than those before. Raises `ValueError` for nonsense."""
        answer = unpack_readings(item, self._sent)
        self._sent, before, fresh = answer.samples, self._known, []
        self._known = {}
        for sample in answer.samples:
            known = before.get(sample.device_id)
            if known is None or known[0] != sample.time:
                known = sample.time, sample_here(self._host, sample, offset_s)
                fresh.append(known[1])
            self._known[sample.device_id] = known
        self.survey = self._survey(answer, fresh)
        return fresh

    def _survey(self, answer: HelperAnswer, fresh: Sequence[Sample]) -> Survey:
        now, before = time.monotonic(), self.survey
        samples = tuple(sample for _, sample in self._known.values())
        arrived = {each.device_id: before.arrived.get(each.device_id, now) for each in samples}
        devices = answer.devices
        return Survey(
            devices=before.devices if devices is None else tuple(device_here(self._host, each) for each in devices),
            samples=samples,
            banner=answer.banner,
            arrived={**arrived, **{each.device_id: now for each in fresh}},
        )


def _without_samples(survey: Survey) -> Survey:
    return Survey(devices=survey.devices)
