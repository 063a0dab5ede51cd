"""The part of a run of another machine: a run directory here, in which some of the ranks train.

The other machine, the head, has the run itself. It starts the part through the agent, follows its files, and removes
it. While it follows, the agent holds a lock on a file of the part, and changes the file's time as a sign of life. A
supervisor whose part has not been held for `grace_s` seconds ends it: the head is gone, and the other ranks with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from core.schema.codec import decode, encode
from core.schema.files import open_to_append, read_json, write_whole
from core.schema.paths import HOLDER_FILE, KEPT_FILE, PART_FILE
from core.schema.rank import RankAssignment  # noqa: TC001 (the codec reads annotations)
from core.system import processes, procfs
from core.system.own_processes import is_agent
from core.system.processes import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GRACE_S = 60.0
"""Default time for which a part trains on without its head, in seconds."""
MAX_GRACE_S = 3600.0
SILENT_S = 15.0
"""Seconds without a sign of life after which the agent that holds a part counts as stopped."""
MISSING = "missing"
UNREADABLE = "unreadable"
"""Why a part cannot use a path."""
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which ranks of which run train here."""

    head: str
    """The name of the machine that has the run."""
    run: str
    """The id of the run there."""
    assignments: tuple[RankAssignment, ...]
    grace_s: float = GRACE_S

    def __post_init__(self) -> None:
        for name in ("head", "run"):
            if not getattr(self, name).isprintable():
                raise ValueError(name)
        if not 0 <= self.grace_s <= MAX_GRACE_S:
            raise ValueError("grace_s")
        if not self.assignments:
            raise ValueError("assignments")


def write_part(run_dir: Path, part: Part) -> None:
    """Write `part.json`, and make the file that is locked. Raises `OSError`."""
    os.close(open_to_append(run_dir / KEPT_FILE))
    write_whole(run_dir / PART_FILE, json.dumps(encode(part), indent=1) + "\n")


def read_part(run_dir: Path) -> Part | None:
    """Return which ranks train in this run directory; None for a run that is no part. Raises `ValueError`."""
    try:
        return decode(Part, read_json(run_dir / PART_FILE, MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error


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
        holder = decode(ProcessId, read_json(run_dir / HOLDER_FILE, MAX_BYTES))
    except (OSError, ValueError):
        return False
    stat = procfs.stat(holder.pid)
    if stat is None or stat.state not in procfs.STOPPED:
        return False
    return processes.send(holder, signal.SIGCONT, only_if=lambda: is_agent(holder.pid))


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
