"""The machine that has the run of which a part trains here, and whether it still follows the part.

While the head follows, the agent holds a lock on a file of the part, and changes the file's time as a sign of life. A
supervisor whose part has not been held for `grace_s` seconds ends it: the head is gone, and the other ranks with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from core.errors import RunError
from core.language import tr
from core.runs.directory import Part
from core.runs.facts import RunFacts
from core.schema.codec import decode
from core.schema.files import open_to_append, read_json, write_whole
from core.schema.paths import HOLDER_FILE, KEPT_FILE
from core.schema.spec import RankAssignment
from core.supervisor.companion import Companion
from core.system import processes, procfs
from core.system.processes import ProcessId

HOLDER_BYTES = 4096
SILENT_S = 15.0
"""Seconds without a sign of life after which the agent that holds a part counts as stopped."""
MISSING = "missing"
UNREADABLE = "unreadable"
"""Why a part cannot use a path."""


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[Callable[[], None]]:
    """Hold a part for as long as the block lasts, or this process lives. Raises `OSError`.

    Yields a function to call every second or so: a holder without this sign of life counts as stopped. An earlier
    holder that is stopped is continued.
    """
    handle = open_to_append(run_dir / KEPT_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        continue_holder(run_dir)
        if (me := processes.identify(os.getpid())) is not None:
            write_whole(run_dir / HOLDER_FILE, json.dumps(asdict(me)))
        os.utime(handle)
        yield lambda: os.utime(handle)
    finally:
        os.close(handle)


def continue_holder(run_dir: Path) -> bool:
    """Continue the agent that holds a part if it is stopped; return whether that was so.

    It then finds that its connection is gone, and ends. A file of a run may name any process: only an agent of this
    user is signalled.
    """
    try:
        holder = decode(ProcessId, read_json(run_dir / HOLDER_FILE, HOLDER_BYTES))
    except (OSError, ValueError):
        return False
    if procfs.state(holder.pid) not in procfs.STOPPED:
        return False
    return processes.send(holder, signal.SIGCONT, only_if=lambda: is_agent(holder.pid))


def is_agent(pid: int) -> bool:
    """Return whether the command line of a process of this user is that of an agent for another machine."""
    return {"agent", "--stdio"} <= set(procfs.words(pid)) and procfs.owner(pid) == os.getuid()


class KeptWatch:
    """Notices that nothing holds a part any more, or only a process that is stopped."""

    def __init__(self, run_dir: Path, grace_s: float, silent_s: float = SILENT_S) -> None:
        self._path, self._grace_s, self._silent_s = run_dir / KEPT_FILE, grace_s, silent_s
        self._held_at = self._beaten_at = time.monotonic()
        self._beat = 0
        """When the holder last gave a sign of life, as the file says."""
        self._was_held = False

    @property
    def is_left(self) -> bool:
        """Whether nothing has held the part for its grace time."""
        if self._is_held():
            self._held_at = time.monotonic()
            return False
        return time.monotonic() - self._held_at > self._grace_s

    @property
    def is_away(self) -> bool:
        """Whether nothing holds the part now, although something did."""
        return not self._is_held() and self._was_held

    def _is_held(self) -> bool:
        try:
            handle = open_to_append(self._path)
        except OSError:  # the folder was removed, which the supervisor notices by itself
            return True
        try:
            beat = os.fstat(handle).st_mtime_ns
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if beat != self._beat:
                self._beat, self._beaten_at = beat, time.monotonic()
            self._was_held = True
            return time.monotonic() - self._beaten_at <= self._silent_s
        finally:
            os.close(handle)
        return False


class Head(Companion):
    """The machine that has the run of which a part trains here."""

    def __init__(self, run_dir: Path, part: Part) -> None:
        self._run_dir, self._part = run_dir, part
        self._kept = KeptWatch(run_dir, part.grace_s)
        self._lost = ""

    def assign(self, assignments: Sequence[RankAssignment]) -> Sequence[RankAssignment]:  # noqa: ARG002
        """Return the ranks that the head has given to this machine."""
        return self._part.assignments

    def poll(self, facts: RunFacts) -> str:  # noqa: ARG002
        """Raise `RunError` when the head has left this part."""
        if self._kept.is_left:
            self._lost = tr(
                "{head}, on which this run is supervised, has not been connected for {seconds:.0f} s, so its part "
                "here was ended.", head=self._part.head, seconds=self._part.grace_s,
            )
            continue_holder(self._run_dir)
            raise RunError(self._lost)
        return ""

    def blame(self) -> str:
        """Return that the part was ended since the head is lost, or that the head is not connected now."""
        if not self._lost and self._kept.is_away:
            self._lost = tr(
                "{head}, on which this run is supervised, was not connected any more when its part here ended.",
                head=self._part.head,
            )
        return self._lost
