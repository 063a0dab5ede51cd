"""Readings from a helper process, which is started again when it ends or hangs, and that is said."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from core.devices.helper import intervals_line, start_command
from core.devices.protocol import ALIVE, from_line
from core.devices.readings_store import ReadingsStore
from core.system.helper_process import CODE_ROOT, HelperProcess, clean_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Sample
    from core.devices.kinds import Kind
    from core.devices.protocol import HelperAnswer
    from core.devices.reader import Options, ReadIntervals
    from core.devices.source import HelperTimeouts


class HelperSource:
    """Keeps a helper alive as long as there is something to read, and knows how old the readings are."""

    def __init__(self, kind: Kind, options: Options, pace: ReadIntervals, patience: HelperTimeouts) -> None:
        self.kind = kind
        self.ledger = ReadingsStore()
        self.answered = False
        self._options, self._pace, self._patience = options, pace, patience
        self._child: HelperProcess | None = None
        self._start_at = -inf
        self._started_at = 0.0
        self._waiting_since: float | None = None  # the last answer, or the start that none has followed
        self._heard: Sequence[Sample] = ()  # the samples of this helper's last answer, to which its next one refers
        self._heard_at = 0.0  # the last sign of life, or the start
        self._child_answered = False
        self._hung = False
        self._absent = False
        self._failures = 0
        self._note: str | None = None
        self._noted_at = 0.0

    @property
    def pid(self) -> int | None:
        """The helper's process id, while there is one."""
        return None if self._child is None else self._child.pid

    def poll(self, now: float) -> None:
        """Take in what the helper wrote; start it, or end it, when that is due."""
        if self._child is not None:
            self._follow(self._child, now)
        elif now >= self._start_at:
            self._start(now)

    def banner(self, now: float) -> str | None:
        """What the driver said, that the helper failed, and how old the readings are."""
        if self._note is not None and now - self._noted_at > self._patience.notice_s and self._child_answered:
            self._note = None
        sentences = (self.ledger.banner, self._note, self._age(now))
        return " ".join(sentence for sentence in sentences if sentence) or None

    def set_pace(self, pace: ReadIntervals) -> None:
        """Read at another pace from now on."""
        if pace != self._pace and self._child is not None:
            self._child.send(intervals_line(pace))
        self._pace = pace

    def close(self) -> None:
        """End the helper and wait until it has ended."""
        self._start_at = inf
        if self._child is not None:
            self._child.close(polite=True)
            self._child = None

    def _start(self, now: float) -> None:
        self._started_at = self._heard_at = now
        self._child_answered = self._hung = False
        self._heard = ()
        if self._waiting_since is None:
            self._waiting_since = now
        try:
            self._child = HelperProcess(
                start_command(self.kind.target, self._options, self._pace),
                cwd=CODE_ROOT,
                environment={name: value for name, value in clean_environment().items() if name != "PYTHONSAFEPATH"},
                stdin=True,
            )
        except OSError as error:
            self._fail(f"could not be started ({error.strerror})", now)

    def _follow(self, child: HelperProcess, now: float) -> None:
        ending = child.ending()  # asked before reading: what it wrote before its end is then all read
        try:
            for line in child.read_lines():
                self._heard_at = now
                if line != ALIVE:
                    self._hear(from_line(line, self._heard), now)
        except (ValueError, LookupError, TypeError):
            child.kill()  # no answer of ours: something writes in between, and a fresh helper is the cure
        if ending is not None:
            self._end(child, ending, now)
        elif self._is_hanging(now):
            self._hung = True
            child.kill()  # that it has ended is seen at a later poll: a process inside the driver may linger

    def _hear(self, answer: HelperAnswer, now: float) -> None:
        self._heard = answer.samples
        self.ledger.enter(answer)
        self._absent = answer.absent
        self.answered = self._child_answered = True
        self._waiting_since = now

    def _is_hanging(self, now: float) -> bool:
        allowed_s = self._patience.hang_s if self._child_answered else self._patience.start_s
        return not self._hung and now - self._heard_at > self._pace.load + allowed_s

    def _end(self, child: HelperProcess, ending: str, now: float) -> None:
        child.close(polite=True)
        self._child = None
        if self._hung:
            self._fail("did not answer and was ended", now)
        elif ending:
            self._fail(f"ended with {ending}", now)
        else:  # it said all there is to say
            self._waiting_since = None
            self._start_at = inf if self._absent else now + self._patience.retry_s

    def _fail(self, what: str, now: float) -> None:
        sound = now - self._started_at > self._patience.notice_s
        self._failures = 1 if sound else self._failures + 1
        pause_s = min(self._patience.backoff_s * 2 ** (self._failures - 1), self._patience.retry_s)
        self._start_at = now + pause_s
        self._note = f"The helper that reads {self.kind.title} devices {what}; it is started again."
        self._noted_at = now

    def _age(self, now: float) -> str | None:
        if self._waiting_since is None:
            return None
        silent_s = now - self._waiting_since
        if silent_s <= self._pace.load + self._patience.stale_s:
            return None
        if not self.ledger.latest:
            return f"{self.kind.title} devices have not answered for {silent_s:.0f} s."
        how = "answer slowly" if self._heard_at > self._waiting_since else "do not answer"
        return f"{self.kind.title} devices {how}: their readings are {silent_s:.0f} s old."
