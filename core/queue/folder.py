"""Find or make this user's folder in the line at the machine's devices; see `core.queue.line`."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from core.errors import RunError
from core.language import join_sentences, tr
from core.queue.line import DEVICES, FOLDER_MODE, PREFIX, TICKETS, Line
from core.schema.files import make_folder, not_written
from core.system import processes
from core.system.mounts import mount_of

PARENT = Path("/var/tmp")  # noqa: S108 (owned by root and sticky: see `core.queue.line`)
VARIABLE = "TRAINYARD_QUEUE_DIR"
NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.", "glusterfs")
"""How types of file systems begin whose locks may not hold between processes, or between machines."""
LEFT_S = 60.0
"""Seconds after which a temporary file of a ticket was left by a process that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLine:
    """The line, and whether it is that of all users."""

    line: Line
    alone: str = ""
    """Why runs of other users are not seen, in sentences; the empty string if they are."""


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
    folder = above / f"{prefix}{os.getuid()}"
    problem = _relative(above) or _network(above) or _prepare(folder)
    if problem is None:
        _remove_left(above)
        return OwnLine(line=Line(str(folder), str(above), prefix))
    from core.system.folders import cache_folder  # imported here, since it is hardly ever needed

    folder = cache_folder() / f"queue-{boot_id()}"
    with contextlib.suppress(OSError):
        make_folder(folder.parent, 0o700)
    if (second := _prepare(folder)) is not None:
        raise RunError(join_sentences([problem, second]))
    alone = tr("Runs of other users are not seen by this queue, nor are yours by theirs. {problem}", problem=problem)
    return OwnLine(line=Line(str(folder), str(folder.parent), ""), alone=alone)


def _relative(above: Path) -> str | None:
    if above.is_absolute():
        return None
    return tr(
        "{variable} is {folder}, which is another folder for each process. Give a path that begins with /.",
        variable=VARIABLE,
        folder=above,
    )


def _network(above: Path) -> str | None:
    mount = mount_of(above)
    if mount is None or not mount.kind.startswith(NETWORK):
        return None
    return tr(
        "{folder} is on a file system ({kind}) whose locks may be those of several machines. Name a local folder that "
        "all users can write to with {variable}, the same for all of them.",
        folder=above,
        kind=mount.kind,
        variable=VARIABLE,
    )


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
            _remove_temporary(folder / TICKETS)
        if not os.access(folder / TICKETS, os.W_OK) or not os.access(folder / DEVICES, os.W_OK):
            raise PermissionError(13, os.strerror(13), str(folder))
    except OSError as error:
        return not_written(
            folder, error, if_full=tr("Free some space."),
            otherwise=tr("Make {parent} writable, or name another place with {variable}.",
                         parent=folder.parent, variable=VARIABLE),
        )  # fmt: skip
    return None


def _remove_temporary(tickets: Path) -> None:
    for path in tickets.glob(".*"):
        if time.time() - path.lstat().st_mtime > LEFT_S:
            path.unlink(missing_ok=True)


def _remove_left(above: Path) -> None:
    """Remove this user's folders of earlier boots."""
    own = f"-{os.getuid()}"
    with contextlib.suppress(OSError):
        for path in above.glob(f"{PREFIX}*{own}"):
            if boot_id() not in path.name and not path.is_symlink() and path.lstat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)
