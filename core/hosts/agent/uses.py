"""What uses the devices of this machine, looked for again and again on threads."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Any

from core.history.device_use import UseFinder
from core.hosts.exchange import pack_uses
from core.system.procfs import available_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.devices.device import Survey

AVAILABLE_STEP = 64 * 2**20
"""Bytes by which the memory that programs can still get must change to be reported again."""


class UseLooks:
    """A file system that hangs holds up nothing but the next look."""

    def __init__(self, runs_root: Path, period_s: float) -> None:
        self._finder = UseFinder(runs_root)
        self._period_s = period_s
        self._due_at = float("-inf")
        self._thread: Thread | None = None
        self._found: dict[str, Any] | None = None
        self._reported: dict[str, Any] | None = None

    def news(self, survey: Survey) -> dict[str, Any] | None:
        """Return what was found, as JSON, if it is not as it was; None otherwise. Begin the next look when it is due.

        What uses the devices of an unchanged survey may change, too: runs on CPU devices.
        """
        if self._thread is not None and self._thread.is_alive():
            return None
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + self._period_s
            self._thread = Thread(target=self._look, args=(survey,), daemon=True)
            self._thread.start()
        if self._found == self._reported:
            return None
        self._reported = self._found
        return self._reported

    def _look(self, survey: Survey) -> None:
        self._found = {**pack_uses(self._finder.find(survey)), "available_bytes": _rounded(available_bytes())}


def _rounded(amount: int | None) -> int | None:
    return None if amount is None else amount // AVAILABLE_STEP * AVAILABLE_STEP
