"""Tell the lists of runs of this user which runs were given marks or names, so that thousands need not be looked at.

A file in the user's cache folder has a line for each such change. It only saves time: without it, or without a line
of it, a list finds the change when it looks at the run in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from core.schema.files import open_to_append, open_to_read
from core.system.folders import cache_folder, make_cache_folder

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 64 * 1024
"""Size from which on the next change begins a new file."""


def note_change(run_dir: Path) -> None:
    """Note that a run was marked or renamed. Where that cannot be written, nothing happens."""
    path = _file()
    line = json.dumps(os.path.join(os.path.realpath(run_dir.parent), run_dir.name)) + "\n"  # noqa: PTH118 (a string)
    with contextlib.suppress(OSError):
        make_cache_folder(path.parent)
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_size > MAX_BYTES:
                path.unlink()
        handle = open_to_append(path)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


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
        lines = self._new_lines()
        changed = [os.path.split(path) for path in map(_path, lines) if path]
        return [name for folder, name in changed if folder == self._root and name]

    def _new_lines(self) -> list[bytes]:
        """Return the whole lines behind the offset, and move it beyond them."""
        try:
            with open_to_read(_file()) as file:
                file.seek(self._offset)
                data = file.read(2 * MAX_BYTES)
        except OSError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        return data.splitlines()


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
