"""Removing a run: its folder with all that is in it, once it is over and nothing of it lives; and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs import leftovers
from core.runs.lock import held
from core.runs.run import Run
from core.runs.states import state_info
from core.schema.paths import EVENTS, SPEC_FILE, SUPERVISOR_EVENTS

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.leftovers import OrphanedProcess

BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system's is."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LAST = (EVENTS, SPEC_FILE)
"""These go last, in this order: until they do, what is left is still a run, which can be removed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What came of it."""

    freed_bytes: int
    """Of the disk, come back."""
    problem: str = ""
    """A sentence, where something could not be removed."""


def why_not(run_dir: Path) -> str:
    """Why a run cannot be removed now: a sentence; no text where it can."""
    if run_dir.is_symlink():
        return f"{run_dir} is a link, and links are not followed. Name the run's own folder, or remove the link (rm)."
    if not _is_run_folder(run_dir):
        return f"{run_dir} is not the folder of a run, and is left alone."
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    run.catch_up()
    state = state_info(run.facts.state)
    if not state.over:
        return f"Run {run.id} is {state.label.lower()}, and is not removed. End it first: trainyard stop {run.id}"
    left = [each for each in leftovers.find([run_dir.parent]) if each.run_id == run.id]
    return _still_there(run.id, left) if left else ""


def size_bytes(run_dir: Path) -> int:
    """What it takes of the disk: what comes back when it is removed. What cannot be looked into is not counted."""
    total = 0
    for folder, _, files in os.walk(run_dir):  # it follows no links
        for path in (folder, *(os.path.join(folder, name) for name in files)):  # noqa: PTH118 (thousands of names)
            with contextlib.suppress(OSError):
                total += _held_by(os.lstat(path))
    return total


def remove(run_dir: Path) -> Removed:
    """Remove a run; nothing of it where `why_not` has a sentence, or where somebody runs it."""
    try:
        with held(run_dir):  # so that nobody resumes it meanwhile
            if problem := why_not(run_dir):
                return Removed(freed_bytes=0, problem=problem)
            removal = _Removal()
            removal.clear(run_dir)
    except RunError as error:
        return Removed(freed_bytes=0, problem=str(error))
    return Removed(freed_bytes=removal.freed_bytes, problem=_not_whole(run_dir, removal.problems))


@dataclass(slots=True)
class _Removal:
    """Removes what is in one folder. No link is followed, and no other file system entered that is mounted below it."""

    freed_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    def clear(self, run_dir: Path) -> None:
        """All of it. Where something must stay, the rest goes, but for what tells that this is a run."""
        handle = os.open(run_dir, FOLDER)
        try:
            device = os.fstat(handle).st_dev
            names = os.listdir(handle)  # noqa: PTH208 (a handle has no Path)
            for name in (*(each for each in names if each not in LAST), *(each for each in LAST if each in names)):
                if name not in LAST or not self.problems:
                    self._remove(handle, name, run_dir / name, device)
        finally:
            os.close(handle)
        if not self.problems:
            self._remove_itself(run_dir)

    def _remove_itself(self, run_dir: Path) -> None:
        try:
            state = run_dir.lstat()
            run_dir.rmdir()
        except OSError as error:
            self.problems.append(f"{run_dir} cannot be removed: {error.strerror}")
        else:
            self.freed_bytes += _held_by(state)

    def _remove(self, parent: int, name: str, path: Path, device: int) -> None:
        """`parent`: a handle of the folder it is in, which cannot be exchanged for a link meanwhile, as a path can."""
        try:
            state = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode):
                self._remove_below(parent, name, path, device)
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        except OSError as error:
            if not any(each.startswith(f"{path}/") for each in self.problems):  # else that is why
                self.problems.append(f"{path} cannot be removed: {error.strerror}")
        else:
            self.freed_bytes += _held_by(state)

    def _remove_below(self, parent: int, name: str, path: Path, device: int) -> None:
        handle = os.open(name, FOLDER, dir_fd=parent)
        try:
            if os.fstat(handle).st_dev != device:
                return  # something is mounted here: the folder cannot be removed, which is told, and its content stays
            for each in os.listdir(handle):  # noqa: PTH208 (as above)
                self._remove(handle, each, path / each, device)
        finally:
            os.close(handle)


def _held_by(state: os.stat_result) -> int:
    """What comes back when this is gone: nothing of a file that has another name still."""
    return state.st_blocks * BLOCK_BYTES if stat.S_ISDIR(state.st_mode) or state.st_nlink == 1 else 0


def _is_run_folder(path: Path) -> bool:
    """Whether this is what a run made: a spec and a folder of events; a setup that is called `spec.json` is no run."""
    spec, events = path / SPEC_FILE, path / EVENTS
    try:
        if not (stat.S_ISREG(spec.lstat().st_mode) and stat.S_ISDIR(events.lstat().st_mode)):
            return False
        told = json.loads(spec.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and {"version", "name", "strategy"} <= told.keys()


def _still_there(run_id: str, left: list[OrphanedProcess]) -> str:
    who = ", ".join(f"pid {each.process.pid} ({each.name})" for each in left)
    them = "it" if len(left) == 1 else "them"
    return f"Run {run_id} is not removed, since {who} is left of it. End {them} first: trainyard sweep --end"


def _not_whole(run_dir: Path, problems: list[str]) -> str:
    if not problems:
        return ""
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"Not all of run {run_dir.name} could be removed. {problems[0]}{more}. Change that, then remove it again."
