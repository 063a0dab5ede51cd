"""List the files that functions of a recipe have written below a run's `outputs/`.

The folder is not trusted: links are neither followed nor listed, and only so many names are looked at.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.schema.paths import OUTPUTS

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILES = 1000
"""Files that are listed."""
MAX_ENTRIES = 10_000
"""Names that are looked at."""
MAX_DEPTH = 8
"""Folders below one another that are looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A regular file below `outputs/`."""

    path: Path
    name: str
    """Its path below `outputs/`, as text that can be shown and written anywhere."""
    size_bytes: int
    modified: float
    """Unix time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that were found, newest first."""

    files: tuple[OutputFile, ...] = ()
    is_complete: bool = True
    """Whether these are all files: False where there are more than are listed."""

    @property
    def size_bytes(self) -> int:
        """The size of all listed files."""
        return sum(file.size_bytes for file in self.files)


def listed(run_dir: Path) -> Outputs:
    """Return the files below the `outputs/` of a run. Folders that cannot be read are left out."""
    root = run_dir / OUTPUTS
    found: list[OutputFile] = []
    folders, seen, cut = [(root, 0)], 0, False
    while folders:
        folder, depth = folders.pop()
        for entry, facts in _entries(folder):
            seen += 1
            if seen > MAX_ENTRIES or len(found) == MAX_FILES:
                return _outputs(found, is_complete=False)
            if stat.S_ISREG(facts.st_mode):
                found.append(_file(entry, root, facts))
            elif stat.S_ISDIR(facts.st_mode) and depth < MAX_DEPTH:
                folders.append((entry, depth + 1))
            elif stat.S_ISDIR(facts.st_mode):
                cut = True
    return _outputs(found, is_complete=not cut)


def _outputs(found: list[OutputFile], *, is_complete: bool) -> Outputs:
    ordered = sorted(found, key=lambda file: (-file.modified, file.name))
    return Outputs(files=tuple(ordered), is_complete=is_complete)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return what is in a folder, which must not be a link."""
    entries: list[tuple[Path, os.stat_result]] = []
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        with os.scandir(folder) as names:
            for entry in itertools.islice(names, MAX_ENTRIES + 1):
                with contextlib.suppress(OSError):  # it has just been removed
                    entries.append((folder / entry.name, entry.stat(follow_symlinks=False)))
    return entries


def _file(path: Path, root: Path, facts: os.stat_result) -> OutputFile:
    name = str(path.relative_to(root)).encode("utf-8", "replace").decode("utf-8")
    return OutputFile(path=path, name=name, size_bytes=facts.st_size, modified=facts.st_mtime)
