"""Aside: does what may take long on a thread of its own; the window's thread never waits for it."""

from __future__ import annotations

import logging
import time
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class BackgroundTask(Generic[Result]):
    """One thing at a time. `poll`, called at every beat, hands over what came of it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._results: list[Result] = []
        self._began = 0.0

    @property
    def busy(self) -> bool:
        """Whether something is under way, or its result has yet to be fetched."""
        return self._thread is not None

    @property
    def busy_s(self) -> float:
        """For how long something has been under way; 0 while nothing is."""
        return time.monotonic() - self._began if self._thread is not None else 0.0

    def start(self, work: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> bool:
        """Begin; False, and nothing is begun, while something else is under way.

        `otherwise`: what to hand over instead when the work goes wrong, which nobody else would hear of: a window that
        was started from a desktop has no standard error.
        """
        if self._thread is not None:
            return False
        # A daemon: a window that is closed waits for nobody.
        self._thread = Thread(target=self._do, args=(work, otherwise), name=self._name, daemon=True)
        self._began = time.monotonic()
        self._thread.start()
        return True

    def poll(self) -> Result | None:
        """The result, once; None while there is none."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._results.pop() if self._results else None

    def _do(self, work: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> None:
        try:
            self._results.append(work())
        except Exception as error:  # the outer border of this thread
            log.exception("What %s did has gone wrong", self._name)
            self._results.append(otherwise(error))


def reason(error: Exception) -> str:
    """Why something went wrong, in a few words for a sentence."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
