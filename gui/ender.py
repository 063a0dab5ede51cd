"""Ender: ends processes that somebody has pointed at and agreed to end; the window does not wait for it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core import ending, holders, processes
from core.state import ProcessId

from .aside import Aside
from .words import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.findings import Holder
    from core.leftovers import Leftover

    from .views.processes import Person

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""
KILLED_S = 5.0
"""So long is waited for a process that was killed."""
NAP_S = 0.02
MOST_NAMES = 3


class Ender(QObject):
    """One request at a time. Who is signalled is looked at anew right before each signal: user and create time."""

    ended = Signal(str, str)
    """A sentence on what came of it, and its tone."""

    def __init__(self) -> None:
        super().__init__()
        self._aside: Aside[tuple[str, str]] = Aside("ender")

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._aside.busy

    def end(self, person: Person) -> None:
        """End a process. That it may be ended was asked before; it is asked again here."""
        leftover = person.leftover
        if leftover is not None:
            self.end_leftovers([leftover])
        else:
            self._aside.start(lambda: end_one(person.holder))

    def end_leftovers(self, those: Sequence[Leftover]) -> None:
        """End what runs have left behind."""
        self._aside.start(lambda: end_leftovers(those))

    def poll(self) -> None:
        """Say what came of it, once it is over."""
        outcome = self._aside.poll()
        if outcome is not None:
            self.ended.emit(*outcome)


def end_leftovers(those: Sequence[Leftover]) -> tuple[str, str]:
    """End them; returns a sentence and its tone."""
    outcome = ending.end(those)
    if outcome.left:
        stuck = " ".join(f"{each.leftover.name} (pid {each.leftover.process.pid}): {each.why}" for each in outcome.left)
        return f"Not all that was left over could be ended. {stuck}", "bad"
    if not outcome.ended:
        return "What was left over has ended by itself.", "good"
    return f"{_named([each.leftover for each in outcome.ended])} ended.", "good"


def end_one(holder: Holder, grace_s: float = GRACE_S, killed_s: float = KILLED_S) -> tuple[str, str]:
    """End one process of this user that belongs to no run; returns a sentence and its tone."""
    who = f"{holder.name} (pid {holder.pid})"
    assert holder.created is not None
    target = ProcessId(pid=holder.pid, created=holder.created)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, killed_s)):
        now = holders.describe(holder.pid)
        if not processes.is_alive(target):
            return f"{who} has ended.", "good"
        if not now.ours or now.run_id != holder.run_id:
            return f"{who} was left alone: it is not what it was when it was listed.", "bad"
        try:
            processes.send(target, number)
        except OSError as error:
            return f"{who} could not be sent {number.name}: {error.strerror}.", "bad"
        if _wait_until(lambda: not processes.is_alive(target), patience_s):
            return f"{who} was ended ({number.name}).", "good"
    if holders.describe(holder.pid).state == "D":
        return f"{who} {IN_THE_KERNEL}", "bad"
    return f"{who} was sent SIGKILL and has not ended within {killed_s:g} s. Look again in a moment.", "bad"


IN_THE_KERNEL = (
    "waits inside the kernel (state D), where no signal reaches it. "
    "If it never comes back, only reloading the driver it waits for or a reboot helps."
)


def _named(those: Sequence[Leftover]) -> str:
    """`python (pid 1) was`, `python (pid 1), python (pid 2) and 3 others were`."""
    names = [f"{each.name} (pid {each.process.pid})" for each in those[:MOST_NAMES]]
    more = len(those) - len(names)
    verb = "was" if len(those) == 1 else "were"
    return f"{listed([*names, f'{more} others'] if more else names)} {verb}"


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(NAP_S)
    return met
