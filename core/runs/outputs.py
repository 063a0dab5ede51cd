"""What a run has written: its checkpoints, and the files of a recipe's functions below `outputs/`.

The folder is not trusted: links are neither followed nor listed, and only so many names are looked at.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from core.language import tr
from core.schema import checkpoint
from core.schema.checkpoint import MANIFEST, MAX_MANIFEST_BYTES, BrokenCheckpointError
from core.schema.files import read_json
from core.schema.paths import OUTPUTS

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
                name = str(entry.relative_to(root)).encode("utf-8", "replace").decode("utf-8")
                found.append(OutputFile(path=entry, name=name, size_bytes=facts.st_size, modified=facts.st_mtime))
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


BEST = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """A checkpoint in the run's folder; its files have not been checked."""

    path: Path
    step: int
    epoch: int
    """Completed epochs."""
    size_bytes: int


def listed_checkpoints(run_dir: Path) -> list[CheckpointEntry]:
    """Return all finished checkpoints, latest first; those that cannot be read are left out."""
    found = []
    for folder in checkpoint.folders(run_dir):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            manifest = read_json(folder / MANIFEST, MAX_MANIFEST_BYTES)
            step, epoch = int(manifest["step"]), int(manifest["epoch"])
            size_bytes = sum(int(facts["bytes"]) for facts in manifest["files"].values())
            found.append(CheckpointEntry(path=folder, step=step, epoch=epoch, size_bytes=size_bytes))
    return found


def whole(run_dir: Path, name: str | None = None) -> Path:
    """Return the folder of the checkpoint of this name, of the `best`, or of the latest, with all files checked.

    Raises `ValueError` with a sentence when there is none, or when it is damaged.
    """
    every = checkpoint.folders(run_dir)
    if not every:
        raise ValueError(
            tr(
                "Run {run} has no checkpoint. While it runs, `trainyard save {run}` writes one; once it "
                "is over, train it again with --checkpoint-every epoch.",
                run=run_dir.name,
            )
        )
    folder = _chosen(run_dir, every, name)
    try:
        checkpoint.read(folder)
    except BrokenCheckpointError as fault:
        damaged = tr(
            "Checkpoint {name} is damaged: {fault}. {choice}", name=folder.name, fault=fault, choice=_choice(every)
        )
        raise ValueError(damaged) from fault
    return folder


def _chosen(run_dir: Path, every: list[Path], name: str | None) -> Path:
    if name is None:
        return every[0]
    if name == BEST:
        sentence = tr("Run {run} has no best checkpoint: none was written at the end of an epoch.", run=run_dir.name)
        found, _ = checkpoint.best_of(every)
    else:
        sentence = tr(
            "Run {run} has no checkpoint {name!r}. {choice}", run=run_dir.name, name=name, choice=_choice(every)
        )
        found = next((folder for folder in every if folder.name == name), None)
    if found is None:
        raise ValueError(sentence)
    return found


def _choice(every: list[Path]) -> str:
    return tr("Choose from: {names}.", names=", ".join(path.name for path in every))
