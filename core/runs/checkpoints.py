"""List the checkpoints of a run, and choose one by name: for the command line and for the export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr
from core.schema import checkpoint
from core.schema.checkpoint import MANIFEST, MAX_MANIFEST_BYTES, BrokenCheckpointError
from core.schema.files import read_json

if TYPE_CHECKING:
    from pathlib import Path

BEST = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """A checkpoint in the run's folder; its files have not been checked."""

    path: Path
    step: int
    epoch: int
    """Completed epochs."""
    size_bytes: int


def listed(run_dir: Path) -> list[CheckpointEntry]:
    """Return all finished checkpoints, latest first; those that cannot be read are left out."""
    entries = (_entry(path) for path in checkpoint.folders(run_dir))
    return [entry for entry in entries if entry is not None]


def _entry(folder: Path) -> CheckpointEntry | None:
    try:
        manifest = read_json(folder / MANIFEST, MAX_MANIFEST_BYTES)
        size_bytes = sum(int(facts["bytes"]) for facts in manifest["files"].values())
        return CheckpointEntry(
            path=folder, step=int(manifest["step"]), epoch=int(manifest["epoch"]), size_bytes=size_bytes
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


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
        best = checkpoint.best_of(every)
        if best is None:
            sentence = tr(
                "Run {run} has no best checkpoint: none was written at the end of an epoch.", run=run_dir.name
            )
            raise ValueError(sentence)
        return best
    for folder in every:
        if folder.name == name:
            return folder
    raise ValueError(
        tr("Run {run} has no checkpoint {name!r}. {choice}", run=run_dir.name, name=name, choice=_choice(every))
    )


def _choice(every: list[Path]) -> str:
    return tr("Choose from: {names}.", names=", ".join(path.name for path in every))
