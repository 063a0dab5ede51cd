"""Run work that may take long on a thread of its own, so that the window's thread never waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

from core.errors import RunError

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class BackgroundTask(Generic[Result]):
    """One piece of work at a time; `poll` returns its result once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._results: list[Result] = []
        self._began = 0.0

    @property
    def busy(self) -> bool:
        """Whether work is under way, or its result has not been fetched."""
        return self._thread is not None

    @property
    def busy_s(self) -> float:
        """Seconds since the work under way began; 0 if there is none."""
        return time.monotonic() - self._began if self._thread is not None else 0.0

    def start(self, work: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> bool:
        """Start work; return False, and start nothing, while other work is under way.

        `work` may not hold a `QObject`, such as `self`: the thread might be the last to hold it, and would delete it.
        `otherwise`: makes the result from an error. A window that was started from a desktop has no standard error, so
        an error that is only logged would not be seen.
        """
        if self._thread is not None:
            return False
        # A daemon thread: closing the window does not wait for it.
        self._thread = Thread(target=self._do, args=(work, otherwise), name=self._name, daemon=True)
        self._began = time.monotonic()
        self._thread.start()
        return True

    def poll(self) -> Result | None:
        """Return the result, once; None while there is none."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._results.pop() if self._results else None

    def wait(self) -> Result | None:
        """Wait for the end of the work under way, and return its result like `poll`; for work of a bounded time."""
        if self._thread is not None:
            self._thread.join()
        return self.poll()

    def _do(self, work: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> None:
        try:
            self._results.append(work())
        except Exception as error:  # the outer border of this thread
            log.exception("Background task %r failed", self._name)
            self._results.append(otherwise(error))


def reason(error: Exception) -> str:
    """Return why something failed, in a few words for a sentence."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def problem_of(work: Callable[[], object]) -> str:
    """Do something; return why it was refused, a sentence, or the empty string."""
    try:
        work()
    except (RunError, ValueError) as error:
        return str(error)
    return ""
