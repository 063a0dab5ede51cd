"""Where the readings of one kind of device come from, and the simple case: this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from core.devices.protocol import HelperAnswer
from core.devices.reader import ReadSchedule
from core.devices.readings_store import ReadingsStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.devices.kinds import Kind
    from core.devices.reader import LocalReader, Options, ReadIntervals


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperTimeouts:
    """How long what may be awaited, in seconds."""

    stale_s: float = 3.0
    """Readings older than the pace and this are called old."""
    hang_s: float = 15.0
    """A helper that gives no sign of life for longer than the pace and this is ended: one call of the driver took
    so long. Calls of seconds do happen, and a fresh helper would only wait for them anew."""
    start_s: float = 60.0
    """The same for its first answer: a driver that nobody uses takes seconds per GPU to wake up."""
    retry_s: float = 10.0
    """After this a driver or a device that could not be asked is asked again."""
    backoff_s: float = 0.5
    """Before the first restart of a helper that failed; doubled with each further one up to `retry_s`."""
    notice_s: float = 20.0
    """How long a restart is spoken of, and how long a helper must live to be called sound."""


class ReadingSource(Protocol):
    """The readings of one kind of device. No method waits; `now` is `time.monotonic()`."""

    kind: Kind
    ledger: ReadingsStore
    answered: bool
    """Whether it has said at least once what there is."""

    def poll(self, now: float) -> None:
        """Take in what there is by now."""

    def banner(self, now: float) -> str | None:
        """A sentence, when something is wrong with all its readings."""

    def set_pace(self, pace: ReadIntervals) -> None:
        """Read at another pace from now on."""

    def close(self) -> None:
        """End whatever was started, and wait until it has ended."""


class LocalSource:
    """Reads in this process."""

    answered = True

    def __init__(self, kind: Kind, options: Options, pace: ReadIntervals) -> None:
        self.kind = kind
        self.ledger = ReadingsStore()
        self._schedule = ReadSchedule(pace)
        self._reader = self._open(options)

    def poll(self, now: float) -> None:
        """Read when it is time to."""
        if self._reader is not None and (tiers := self._schedule.take(now)):
            samples = tuple(self._reader.read(time.time(), tiers))
            self.ledger.enter(HelperAnswer(samples=samples, banner=self._reader.banner))

    def banner(self, now: float) -> str | None:  # noqa: ARG002 (what is read on the spot is never old)
        """What the reader says, or why there is none."""
        return self.ledger.banner

    def set_pace(self, pace: ReadIntervals) -> None:
        """Read at another pace from now on."""
        self._schedule.change(pace)

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, the processes whose memory is to be read."""
        if self._reader is not None:
            self._reader.watch(pids)

    def close(self) -> None:
        """Nothing was started."""

    def _open(self, options: Options) -> LocalReader | None:
        try:
            reader: LocalReader = import_module(self.kind.target).open_reader(options)
        except ValueError as error:  # what the user set; the window must come up to say so
            self.ledger.enter(HelperAnswer(banner=str(error)))
            return None
        self.ledger.enter(HelperAnswer(devices=reader.devices))
        return reader
