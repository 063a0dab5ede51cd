"""This user's folder in the line at the machine's devices: find it or make it; see `core.queue.line`.

In it is also written that all queued runs are held, after runs that failed alike, and the use of devices.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import RunError
from core.language import join_sentences, stored, tr, tr_noop
from core.queue.line import (
    DEVICES,
    FOLDER_MODE,
    HELD,
    MAX_HELD_BYTES,
    PREFIX,
    TICKETS,
    USE,
    Line,
    decayed,
    read_small,
)
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.runs.lock import try_lock
from core.schema.events import Tail
from core.schema.files import make_folder, not_written, write_whole
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS
from core.system import processes
from core.system.folders import cache_folder
from core.system.helper_process import wait_until
from core.system.procfs import mount_of
from core.text import one_line

PARENT = Path("/var/tmp")  # noqa: S108 (owned by root and sticky: see `core.queue.line`)
VARIABLE = "TRAINYARD_QUEUE_DIR"
NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.", "glusterfs")
"""How types of file systems begin whose locks may not hold between processes, or between machines."""
LEFT_S = 60.0
"""Seconds after which a temporary file of a ticket was left by a process that was killed."""
TOO_MANY = tr_noop(
    "There are more folders or tickets of other users in {folder} than are looked at, so their runs may not be seen. "
    "Ask an administrator to remove what is not needed there: its names begin with {prefix}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLine:
    """The line, and whether it is that of all users."""

    line: Line
    alone: str = ""
    """Why runs of other users are not seen, in sentences; the empty string if they are."""

    @property
    def apart(self) -> str:
        """Why it is not, or not surely, the line of all users; known after `Line.folders`."""
        if self.alone or self.line.parent not in self.line.passed:
            return self.alone
        return tr(TOO_MANY, prefix=PREFIX, folder=self.line.parent)


def facts_of(run_dir: Path) -> RunFacts:
    """Return what supervisors and waiting processes have recorded of a run."""
    return fold(RunFacts(), Tail(run_dir / EVENTS / SUPERVISOR_EVENTS).read())


def parent() -> Path:
    """Return where the folders of all users are, unless TRAINYARD_QUEUE_DIR names another place."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else PARENT


def boot_id() -> str:
    """Return what differs after each start of the machine, as part of a file's name."""
    return processes.here().boot or "unknown"


def own_line() -> OwnLine:
    """Return the line, with this user's folder in it. Raises `RunError` if no folder can be made.

    Where the common place cannot be used, it is one in the user's cache, in which other users are not seen.
    """
    above, prefix = parent(), f"{PREFIX}{boot_id()}-"
    problem = _misplaced(above)
    for _ in range(2 if problem is None else 0):  # another user may make the plain name in this moment
        folder = _own_folder(above / f"{prefix}{os.getuid()}")
        if (problem := _prepare(folder)) is None and _existing(above / f"{prefix}{os.getuid()}") == folder:
            _remove_left(above)
            return OwnLine(line=Line(str(folder), str(above), prefix))
    folder = cache_folder() / f"queue-{boot_id()}"
    with contextlib.suppress(OSError):
        make_folder(folder.parent, 0o700)
    if (second := _prepare(folder)) is not None:
        raise RunError(join_sentences(filter(None, [problem, second])))
    alone = tr("Runs of other users are not seen by this queue, nor are yours by theirs. {problem}", problem=problem)
    return OwnLine(line=Line(str(folder), str(folder.parent), ""), alone=alone)


def _misplaced(above: Path) -> str | None:
    """Return why the folders of all users cannot be here, or None."""
    if not above.is_absolute():
        return tr("{variable} is {folder}, which is another folder for each process. Give a path that begins with /.",
                  variable=VARIABLE, folder=above)
    mount = mount_of(above)
    if mount is None or not mount.kind.startswith(NETWORK):
        return None
    return tr(
        "{folder} is on a file system ({kind}) whose locks may be those of several machines. Name a local folder that "
        "all users can write to with {variable}, the same for all of them.", folder=above, kind=mount.kind,
        variable=VARIABLE,
    )


def _own_folder(plain: Path) -> Path:
    """Return the folder of this user: the plain name, unless another user made that first.

    Then its name is random, and this user's processes agree on it through a lock in the user's cache folder.
    """
    if (found := _existing(plain)) is not None or not os.path.lexists(plain):
        return found or plain
    with contextlib.suppress(OSError):
        make_folder(cache_folder(), 0o700)
        with (cache_folder() / "queue.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (found := _existing(plain)) is not None:
                return found
            folder = plain.with_name(f"{plain.name}-{os.urandom(8).hex()}")
            folder.mkdir(FOLDER_MODE)
            return folder
    return plain


def _existing(plain: Path) -> Path | None:
    """Return the folder that other users take for that of this user: see `core.queue.line`."""
    if _is_own(plain):
        return plain
    with contextlib.suppress(OSError), os.scandir(plain.parent) as entries:
        seconds = (Path(each.path) for each in entries if each.name.startswith(f"{plain.name}-"))
        return min(filter(_is_own, seconds), default=None)
    return None


def _is_own(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


def _prepare(folder: Path) -> str | None:
    """Make this user's folder unless it is there; return why it cannot be used, or None."""
    try:
        if VARIABLE in os.environ:
            make_folder(folder.parent, FOLDER_MODE)
        for each in (folder, folder / TICKETS, folder / DEVICES):
            with contextlib.suppress(FileExistsError):
                each.mkdir(FOLDER_MODE)
                each.chmod(FOLDER_MODE)  # whatever the umask
            found = each.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                return tr(
                    "{folder} belongs to somebody else or is no folder, so it cannot be used for the queue. Ask its "
                    "owner or an administrator to remove it, or name another place with {variable}.",
                    folder=each,
                    variable=VARIABLE,
                )
            if stat.S_IMODE(found.st_mode) != FOLDER_MODE:
                each.chmod(FOLDER_MODE)
        with contextlib.suppress(OSError):
            for path in (folder / TICKETS).glob(".*"):
                if time.time() - path.lstat().st_mtime > LEFT_S:
                    path.unlink(missing_ok=True)
        if not os.access(folder / TICKETS, os.W_OK) or not os.access(folder / DEVICES, os.W_OK):
            raise PermissionError(13, os.strerror(13), str(folder))
    except OSError as error:
        return not_written(
            folder, error, if_full=tr("Free some space."),
            otherwise=tr("Make {parent} writable, or name another place with {variable}.",
                         parent=folder.parent, variable=VARIABLE),
        )
    return None


def _remove_left(above: Path) -> None:
    """Remove this user's folders of earlier boots."""
    name = re.compile(rf"{PREFIX}(?:[0-9a-f-]{{36}}|unknown)-{os.getuid()}(?:-[0-9a-f]{{16}})?")
    with contextlib.suppress(OSError):
        for path in (each for each in above.glob(f"{PREFIX}*") if name.fullmatch(each.name)):
            if boot_id() not in path.name and not path.is_symlink() and path.lstat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)


IN_A_ROW = 3
SOON_S = 60.0
"""Seconds within which a run failed early."""
MAX_ERROR = 300
ALONE_S = 1.0
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
        _publish(path, json.dumps({"seconds": seconds, "at": now, "ended": latest}))
        if ended is not None and _are_alike(latest):
            hold(line, tr(QUEUE_HELD, count=IN_A_ROW, error=ended["error"]))


@contextlib.contextmanager
def _alone(line: Line) -> Iterator[None]:
    """Wait while another run of this user records its end: runs on several devices may fail at the same moment.

    It waits a second at most, since other users can lock the folder, too. Raises `OSError`.
    """
    handle = os.open(Path(line.own) / TICKETS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        wait_until(lambda: try_lock(handle), ALONE_S)
        yield
    finally:
        os.close(handle)


def hold(line: Line, why: str | None = None) -> None:
    """Hold all queued runs of this user. Raises `OSError`."""
    _publish(Path(line.own) / HELD, json.dumps(stored(why or tr(HELD_BY_USER)), ensure_ascii=False))


def let_go(line: Line) -> bool:
    """Let the queue of this user go on; return whether it was held. Raises `OSError`."""
    path = Path(line.own) / USE
    fields = _read(path)
    if fields.pop("ended", None):
        _publish(path, json.dumps(fields))
    with contextlib.suppress(FileNotFoundError):
        (Path(line.own) / HELD).unlink()
        return True
    return False


def _publish(path: Path, text: str) -> None:
    """Write a file that other users are to read."""
    write_whole(path, text)
    path.chmod(0o644)


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
