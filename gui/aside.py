"""Aside: does what may take long on a thread of its own; the window's thread never waits for it."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Aside(Generic[Result]):
    """One thing at a time. `poll`, called at every beat, hands over what came of it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._results: list[Result] = []

    @property
    def busy(self) -> bool:
        """Whether something is under way, or its result has yet to be fetched."""
        return self._thread is not None

    def start(self, work: Callable[[], Result]) -> bool:
        """Begin; False, and nothing is begun, while something else is under way."""
        if self._thread is not None:
            return False
        # A daemon: a window that is closed waits for nobody.
        self._thread = Thread(target=lambda: self._results.append(work()), name=self._name, daemon=True)
        self._thread.start()
        return True

    def poll(self) -> Result | None:
        """The result, once; None while there is none, and after work that went wrong, which the thread has reported."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._results.pop() if self._results else None
