"""Run work that may take long on threads, and take the results in the window's thread."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, QTimer

from core.errors import RunError

log = logging.getLogger(__name__)

Result = TypeVar("Result")
LOOK_MS, LONG_LOOK_MS = 15, 250
"""Milliseconds between two looks at work under way, and at work that takes longer than `LONG_S`, perhaps for ever."""
LONG_S = 1.0


@dataclass(slots=True)
class _Job(Generic[Result]):
    work: Callable[[], Result]
    done: Callable[[Result], object]
    failed: Callable[[Exception], object]
    results: list[Result] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    thread: Thread | None = None
    began: float = 0.0

    def begin(self, name: str) -> None:
        # Only the work goes to the thread, which may be the last to hold it. The window's closing waits for no daemon.
        self.thread = Thread(target=_do, args=(self.work, self.results, self.errors, name), name=name, daemon=True)
        self.began = time.monotonic()
        self.thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end, at most so long; return whether it has ended."""
        assert self.thread is not None
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def report(self) -> None:
        for result in self.results:
            self.done(result)
        for error in self.errors:
            self.failed(error)


def _do(work: Callable[[], Result], results: list[Result], errors: list[Exception], name: str) -> None:
    try:
        results.append(work())
    except Exception as error:  # the outer border of this thread
        if not isinstance(error, (RunError, ValueError)):  # which are sentences for the user
            log.exception("Background work %r failed", name)
        errors.append(error)


class Jobs(QObject):
    """Pieces of work of one kind, one after the other, each on a thread of its own.

    `work` runs on the thread. It may not hold a `QObject`, such as `self`: the thread might be the last to hold it, and
    would delete it. In the window's thread, `done` is called with its result, or `failed` with its error: a window that
    was started from a desktop has no standard error, so an error that is only logged would not be seen. Neither is
    called once the owner was deleted. Closing the window does not wait for work.
    """

    def __init__(self, owner: QObject, name: str, *, guards: bool = False) -> None:
        """`guards`: no other window takes the place of this one, as for another language, while this is busy."""
        super().__init__(owner)
        self.guards = guards
        self._name = name
        self._current: _Job[Any] | None = None
        self._waiting: deque[_Job[Any]] = deque()
        self._is_closed = False
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)

    @property
    def busy(self) -> bool:
        """Whether work is under way or waits."""
        return self._current is not None

    @property
    def busy_s(self) -> float:
        """Seconds since the work under way began; 0 if there is none."""
        return time.monotonic() - self._current.began if self._current is not None else 0.0

    def start(
        self, work: Callable[[], Result], done: Callable[[Result], object], failed: Callable[[Exception], object]
    ) -> bool:
        """Do this now; return False, and do nothing, while other work is under way, or after `close`."""
        if self.busy or self._is_closed:
            return False
        self.add(work, done, failed)
        return True

    def add(
        self, work: Callable[[], Result], done: Callable[[Result], object], failed: Callable[[Exception], object]
    ) -> None:
        """Do this after all other work; nothing after `close`."""
        if not self._is_closed:
            self._waiting.append(_Job(work, done, failed))
            if self._current is None:
                self._begin_next()

    def replace(
        self, work: Callable[[], Result], done: Callable[[Result], object], failed: Callable[[Exception], object]
    ) -> None:
        """Do this after the work under way, in place of the work that waits."""
        self.drop_waiting()
        self.add(work, done, failed)

    def drop_waiting(self) -> None:
        """Do nothing of what waits."""
        self._waiting.clear()

    def abandon(self) -> None:
        """Forget the result of the work under way, and begin the next. Its thread ends by itself."""
        self._begin_next()

    def close(self) -> None:
        """Begin nothing any more, and report nothing: the window was closed."""
        self._is_closed = True
        self.drop_waiting()
        self.abandon()

    def finish(self) -> None:
        """Wait for the work under way, and take its result; for work of a bounded time."""
        if self._current is not None:
            self._current.wait()
            self._look()

    def _begin_next(self) -> None:
        self._current = self._waiting.popleft() if self._waiting else None
        if self._current is None:
            self._timer.stop()
        else:
            self._current.begin(self._name)
            self._timer.start(LOOK_MS)

    def _look(self) -> None:
        ended = self._current
        if ended is not None and ended.wait(0):
            self._begin_next()
            ended.report()
        elif self.busy_s > LONG_S and self._timer.interval() == LOOK_MS:
            self._timer.setInterval(LONG_LOOK_MS)


def keep_as_it_is(_: object) -> None:
    """Do nothing with a result or an error: what is known stays shown."""


def sentence(error: Exception) -> str:
    """Return why something failed, as a sentence."""
    return str(error) if isinstance(error, (RunError, ValueError)) else f"{reason(error)}."


def reason(error: Exception) -> str:
    """Return why something failed, in a few words for a sentence."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
