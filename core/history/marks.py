"""What users give to runs: a name, a star, tags, notes, a place in the archive.

The name is in a file of its own: `spec.json` stays what was asked for. The marks are lines of a file in the run's
folder that is only appended to, so any number of windows and commands may give them at the same time. Nothing that was
noted is lost; a later line decides on star, archive and each tag.

A file in the user's cache folder has a line for each change, so that a list need not look at thousands of runs. The
file only saves time: without it, or without a line of it, a list finds the change when it looks at the run in turn.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from core.language import tr
from core.runs import foreign
from core.runs.owners import owner_of_run
from core.schema.event_kinds import MarkChange, read_all
from core.schema.events import parse
from core.schema.files import open_to_append, open_to_read, write_whole
from core.schema.paths import MARKS_FILE, NAME_FILE, SPEC_FILE
from core.schema.spec import MAX_NAME
from core.system.folders import cache_folder, make_cache_folder, writing

MAX_BYTES = 1024 * 1024
"""Bytes of the file that are read; a planted one may be larger."""
MAX_NOTE = 4000
MAX_TAG = 50
MAX_TAGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on a run."""

    time: float
    """Unix seconds."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of a run."""

    star: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    """In the order in which they were given."""
    notes: tuple[Note, ...] = field(default=())
    """The oldest first."""


NO_MARKS = Marks()


def read_marks(run_dir: Path) -> Marks:
    """Return the marks of a run. A line that is damaged is passed over."""
    try:
        with open_to_read(f"{run_dir}/{MARKS_FILE}") as file:
            lines = file.read(MAX_BYTES).split(b"\n")
    except OSError:
        return NO_MARKS
    events = [event for line in lines if b'"mark"' in line and (event := parse(line)) is not None]
    return reduce(_folded, read_all(MarkChange, events), NO_MARKS)


def change_marks(
    run_dir: Path, *, star: bool | None = None, archived: bool | None = None, add_tags: Iterable[str] = (),
    remove_tags: Iterable[str] = (), note: str = "",
) -> Marks:
    """Change what is given, and return the marks.

    Raises `ValueError` with a sentence for a tag or note that cannot be used or a run of another user, `RunError` if
    the marks cannot be written.
    """
    foreign.refuse(run_dir)
    if owner := owner_of_run(run_dir):
        raise ValueError(tr("Run {id} belongs to {owner}. Only its owner can mark it.", id=run_dir.name, owner=owner))
    added, removed, note = [check_tag(each) for each in add_tags], [*remove_tags], note.strip()
    if len(note) > MAX_NOTE:
        raise ValueError(tr("The note has {count} characters. Give at most {limit}.", count=len(note), limit=MAX_NOTE))
    before = read_marks(run_dir)
    if missing := [tag for tag in removed if tag not in before.tags]:
        raise ValueError(tr("Run {id} has no tag {tag}. `trainyard runs` lists the tags.", id=run_dir.name,
                            tag=missing[0]))
    if len({*before.tags, *added} - {*removed}) > MAX_TAGS:
        raise ValueError(tr("A run can have {limit} tags. Remove some first.", limit=MAX_TAGS))
    change = MarkChange(star=star, archived=archived, tags=tuple(added), untag=tuple(removed), note=note)
    if change.fields():
        _append(run_dir, change)
        note_change(run_dir)
    return read_marks(run_dir)


def check_tag(tag: str) -> str:
    """Return a tag without spaces around it. Raises `ValueError` with a sentence if it cannot be one."""
    tag = tag.strip()
    if not tag or len(tag) > MAX_TAG or not tag.isprintable() or any(each in tag for each in ' ,"'):
        raise ValueError(tr("{tag!r} cannot be a tag. Give up to {limit} characters without spaces, commas and quotes.",
                            tag=tag, limit=MAX_TAG))
    return tag


def _folded(marks: Marks, change: MarkChange) -> Marks:
    added, removed = ([tag[:MAX_TAG] for tag in tags[:MAX_TAGS]] for tags in (change.tags, change.untag))
    kept = [tag for tag in dict.fromkeys([*marks.tags, *added]) if tag not in removed]
    noted = (Note(time=change.time, text=change.note[:MAX_NOTE]),) if change.note else ()
    return replace(
        marks,
        star=marks.star if change.star is None else change.star,
        archived=marks.archived if change.archived is None else change.archived,
        tags=tuple(kept[:MAX_TAGS]),
        notes=(*marks.notes, *noted),
    )


def _append(run_dir: Path, change: MarkChange) -> None:
    """Append a line in one write. A line before it that was cut off, by a full disk say, is ended first."""
    path = run_dir / MARKS_FILE
    line = json.dumps(change.event(), ensure_ascii=False).encode() + b"\n"
    with writing(path, tr("Check the permissions of its folder.")):
        data = line if _ends_with_line(path) else b"\n" + line
        handle = open_to_append(path)
        try:
            if os.write(handle, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fchmod(handle, stat.S_IMODE((run_dir / SPEC_FILE).stat().st_mode))  # readable by the same users
        finally:
            os.close(handle)


def _ends_with_line(path: Path) -> bool:
    try:
        with open_to_read(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return file.read(1) in {b"", b"\n"}
    except FileNotFoundError:
        return True


def marks_fields(marks: Marks) -> dict[str, Any]:
    return {
        "star": marks.star, "archived": marks.archived, "tags": list(marks.tags),
        "notes": [{"time": note.time, "text": note.text} for note in marks.notes],
    }


def why_no_name(name: str) -> str:
    """Return why this cannot be the name of a run; the empty string if it can."""
    if not name.strip():
        return tr("Enter a name.")
    if len(name) > MAX_NAME:
        return tr("The name has {count} characters. Give at most {limit}.", count=len(name), limit=MAX_NAME)
    if not name.isprintable():
        return tr("The name has a character that cannot be printed. Leave it out.")
    return ""


def rename(run_dir: Path, name: str) -> str:
    """Name a run, and return the name as it is shown: without spaces around it.

    Raises `ValueError` with a sentence for a name that cannot be used or a run of another user, `RunError` if the name
    cannot be written.
    """
    foreign.refuse(run_dir)
    name = re.sub(" +", " ", name).strip()  # as it is read; a line break or a tab is refused
    if problem := why_no_name(name):
        raise ValueError(problem)
    if owner := owner_of_run(run_dir):
        raise ValueError(tr("Run {id} belongs to {owner}. Only its owner can rename it.", id=run_dir.name, owner=owner))
    path = run_dir / NAME_FILE
    with writing(path, tr("Check the permissions of its folder.")):
        write_whole(path, json.dumps({"name": name}, ensure_ascii=False) + "\n")
        path.chmod(stat.S_IMODE((run_dir / SPEC_FILE).stat().st_mode))  # readable by the same users
    note_change(run_dir)
    return name


MAX_CHANGES_BYTES = 64 * 1024
"""Size from which on the next change begins a new file."""


def note_change(run_dir: Path) -> None:
    """Note that a run was marked or renamed. Where that cannot be written, nothing happens."""
    path = _file()
    line = json.dumps(os.path.join(os.path.realpath(run_dir.parent), run_dir.name)) + "\n"  # noqa: PTH118 (a string)
    with contextlib.suppress(OSError):
        make_cache_folder(path.parent)
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_size > MAX_CHANGES_BYTES:
                path.unlink()
        with os.fdopen(open_to_append(path), "ab") as file:
            file.write(line.encode())


class ChangedRuns:
    """Follows the changes of runs below one root, from its creation on."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._inode, self._offset = _inode_and_size(_file())

    def names(self) -> list[str]:
        """Return the names of the folders of runs that were changed since the last call."""
        inode, size = _inode_and_size(_file())
        if (inode, size) == (self._inode, self._offset):
            return []
        if inode != self._inode or size < self._offset:
            self._inode, self._offset = inode, 0
        try:
            with open_to_read(_file()) as file:
                file.seek(self._offset)
                data = file.read(2 * MAX_CHANGES_BYTES)
        except OSError:
            return []
        data = data[: data.rfind(b"\n") + 1]  # whole lines
        self._offset += len(data)
        changed = [os.path.split(path) for path in map(_path, data.splitlines()) if path]
        return [name for folder, name in changed if folder == self._root and name]


def _file() -> Path:
    return cache_folder() / "changed-runs.jsonl"


def _inode_and_size(path: Path) -> tuple[int, int]:
    """Return both as 0 where there is no file."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_size


def _path(line: bytes) -> str:
    """Return the path in a line; the empty string for a damaged one."""
    try:
        path = json.loads(line)
    except ValueError:
        return ""
    return path if isinstance(path, str) else ""
