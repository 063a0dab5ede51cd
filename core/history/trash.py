"""Deleted runs of the window: kept for a week beside the others, so that a deletion can be undone."""

from __future__ import annotations

import contextlib
import os
import time
from errno import ENOTDIR
from pathlib import Path

from core.errors import RunError
from core.history import removal
from core.history.removal import Removed
from core.language import tr
from core.runs.lock import held

FOLDER = ".deleted"
"""Below the folder of runs, which lists no folder without a spec."""
KEPT_S = 7 * 86_400.0


def place(run_dir: Path) -> Path:
    """Return where a run is while it is deleted."""
    return run_dir.parent / FOLDER / run_dir.name


def put(run_dir: Path) -> Removed:
    """Move a run away, unless `removal.why_not` has an objection or the run is running. Nothing is freed yet."""
    if problem := removal.why_not(run_dir):
        return Removed(freed_bytes=0, problem=problem)
    target = place(run_dir)
    try:
        with held(run_dir):  # so that it is not resumed meanwhile
            if problem := removal.why_not(run_dir):
                return Removed(freed_bytes=0, problem=problem)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            if target.parent.is_symlink():
                raise NotADirectoryError(ENOTDIR, tr("it is a link"))
            os.utime(run_dir)  # the time of the deletion, before another window can find it there
            run_dir.rename(target)
    except RunError as error:
        return Removed(freed_bytes=0, problem=str(error))
    except OSError as error:
        words = tr("{run_dir} could not be moved to {folder}: {why}. Change that, or delete it for good.",
                   run_dir=run_dir, folder=target.parent, why=error.strerror or error)
        return Removed(freed_bytes=0, problem=words)
    return Removed(freed_bytes=0, kept=target)


def kept(root: Path) -> list[Path]:
    """Return the deleted runs below a folder of runs, the last one first. Links are not followed."""
    found: list[tuple[float, Path]] = []
    if (root / FOLDER).is_symlink():  # what it leads to was not deleted
        return []
    with contextlib.suppress(OSError), os.scandir(root / FOLDER) as entries:
        folders = [each for each in entries if each.is_dir(follow_symlinks=False)]
        found = [(each.stat(follow_symlinks=False).st_mtime, Path(each)) for each in folders]
    return [path for _, path in sorted(found, reverse=True)]


def restore(deleted: Path) -> Path:
    """Move a deleted run back, and return its folder. Raises `RunError` with a sentence."""
    run_dir = deleted.parent.parent / deleted.name
    try:
        if run_dir.exists():
            raise RunError(tr("{run_dir} exists again. Rename it, then restore the deleted run.", run_dir=run_dir))
        with held(deleted):  # so that it is not removed for good meanwhile
            deleted.rename(run_dir)
    except OSError as error:
        raise RunError(
            tr("{deleted} could not be restored: {why}.", deleted=deleted, why=error.strerror or error)
        ) from error
    return run_dir


def purge(root: Path, now: float | None = None) -> None:
    """Remove runs that were deleted more than a week ago. What cannot be removed is tried again at the next time."""
    for each in kept(root):
        with contextlib.suppress(OSError):
            if (time.time() if now is None else now) - each.lstat().st_mtime > KEPT_S:
                removal.remove(each)
