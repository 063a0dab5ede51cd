"""Hold a user's queue after runs that failed alike, and add up the use of devices."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.language import stored, tr, tr_noop
from core.queue.line import HELD, MAX_HELD_BYTES, TICKETS, USE, decayed, read_small
from core.runs.facts.states import RunState
from core.schema.files import write_whole
from core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.queue.line import Line
    from core.runs.facts.run_facts import RunFacts

IN_A_ROW = 3
SOON_S = 60.0
"""Seconds within which a run failed early."""
MAX_ERROR = 300
ALONE_S, NAP_S = 1.0, 0.005
QUEUE_HELD = tr_noop(
    "Your queue is held, since {count} queued runs in a row failed within a minute with the same error: {error} "
    "Correct the cause, then let the queue go on with: trainyard queue release"
)
HELD_BY_USER = tr_noop("Your queue is held. Let it go on with: trainyard queue release")


def outcome(run: str, facts: RunFacts) -> dict[str, Any]:
    """Return how a queued run ended; see `record`."""
    took = (facts.ended or facts.latest) - (facts.started or facts.latest)
    failed = facts.state is RunState.FAILED and took < SOON_S
    return {"run": run, "error": one_line(facts.error or "", MAX_ERROR) if failed else ""}


def record(line: Line, seconds: float, ended: dict[str, Any] | None) -> None:
    """Add use of devices, and the end of a queued run; hold the queue if it is the third that failed alike.

    `seconds`: for each device those that the run had it. Raises `OSError`.
    """
    path, now = Path(line.own) / USE, time.time()
    with _alone(line):
        fields = _read(path)
        with contextlib.suppress(TypeError, ValueError):
            seconds += decayed(float(fields.get("seconds", 0.0)), now - float(fields.get("at", now)))
        last = fields.get("ended")
        latest = [*(last if isinstance(last, list) else []), *([] if ended is None else [ended])][-IN_A_ROW:]
        write_whole(path, json.dumps({"seconds": seconds, "at": now, "ended": latest}))
        path.chmod(0o644)  # what others are to read
        if ended is not None and _are_alike(latest):
            hold(line, tr(QUEUE_HELD, count=IN_A_ROW, error=ended["error"]))


@contextlib.contextmanager
def _alone(line: Line) -> Iterator[None]:
    """Wait while another run of this user records its end: runs on several devices may fail at the same moment.

    It waits a second at most, since other users can lock the folder, too. Raises `OSError`.
    """
    handle = os.open(Path(line.own) / TICKETS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        until = time.monotonic() + ALONE_S
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(NAP_S)
        yield
    finally:
        os.close(handle)


def hold(line: Line, why: str | None = None) -> None:
    """Hold all queued runs of this user. Raises `OSError`."""
    path = Path(line.own) / HELD
    write_whole(path, json.dumps(stored(why or tr(HELD_BY_USER))))
    path.chmod(0o644)


def let_go(line: Line) -> bool:
    """Let the queue of this user go on; return whether it was held. Raises `OSError`."""
    path = Path(line.own) / USE
    fields = _read(path)
    if fields.pop("ended", None):
        write_whole(path, json.dumps(fields))
        path.chmod(0o644)
    with contextlib.suppress(FileNotFoundError):
        (Path(line.own) / HELD).unlink()
        return True
    return False


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(read_small(str(path), MAX_HELD_BYTES) or b"{}")
        if isinstance(found, dict):
            return found
    return {}


def _are_alike(latest: list[Any]) -> bool:
    causes = {_cause(each) for each in latest}
    return len(latest) == IN_A_ROW and len(causes) == 1 and causes != {""}


def _cause(ended: Any) -> str:  # noqa: ANN401 (JSON)
    """Return an error without what differs from run to run: numbers, and the run's name."""
    if not isinstance(ended, dict):
        return ""
    error, run = str(ended.get("error", "")), str(ended.get("run", ""))
    return re.sub(r"\d+", "#", error.replace(run, "RUN") if run else error)
