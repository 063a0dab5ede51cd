"""The checkpoints of a run, as they lie in its folder: for people, and for the export."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.schema import checkpoint
from core.schema.checkpoint import MANIFEST, BrokenCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

BEST = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """A checkpoint that is in the folder. Whether its files are whole, `whole` tells."""

    path: Path
    step: int
    epoch: int
    """Epochs that were done."""
    size_bytes: int


def listed(run_dir: Path) -> list[CheckpointEntry]:
    """All finished checkpoints, the latest first; those that cannot be read are left out."""
    entries = (_entry(path) for path in checkpoint.folders(run_dir))
    return [entry for entry in entries if entry is not None]


def _entry(folder: Path) -> CheckpointEntry | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        size_bytes = sum(int(facts["bytes"]) for facts in manifest["files"].values())
        return CheckpointEntry(
            path=folder, step=int(manifest["step"]), epoch=int(manifest["epoch"]), size_bytes=size_bytes
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def whole(run_dir: Path, name: str | None = None) -> Path:
    """The folder of the checkpoint of this name, or `best`, or the latest; all its files were checked.

    Raises `ValueError` with a sentence when there is none, or when it is broken.
    """
    every = checkpoint.folders(run_dir)
    if not every:
        raise ValueError(f"Run {run_dir.name} has no checkpoint. `trainyard save` writes one while it runs.")
    folder = _chosen(run_dir, every, name)
    try:
        checkpoint.read(folder)
    except BrokenCheckpointError as fault:
        raise ValueError(f"Checkpoint {folder.name} is broken: {fault}. Choose from: {_names(every)}.") from fault
    return folder


def _chosen(run_dir: Path, every: list[Path], name: str | None) -> Path:
    if name is None:
        return every[0]
    if name == BEST:
        best = checkpoint.best_of(every)
        if best is None:
            raise ValueError(f"Run {run_dir.name} has no best checkpoint: none is of the end of an epoch.")
        return best
    for folder in every:
        if folder.name == name:
            return folder
    raise ValueError(f"Run {run_dir.name} has no checkpoint {name!r}. Choose from: {_names(every)}.")


def _names(every: list[Path]) -> str:
    return ", ".join(path.name for path in every)
