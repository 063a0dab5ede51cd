"""Checkpoints on disk: written beside and renamed, so that a kill loses nothing; found whole, or passed over.

checkpoints/step-00000230/          a folder per checkpoint, with the files of all ranks
    checkpoint.json                 where training stood, and the size and CRC of every file; written last
checkpoints/.step-00000253.tmp/     one that is being written, or was when its run was killed
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .paths import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


VERSION = 1
MANIFEST = "checkpoint.json"
CHUNK_BYTES = 1 << 22


class StateSaver(Protocol):
    """Writes what a strategy has to remember, and brings it back. Called on every rank, in step."""

    def save(self, folder: Path) -> None:
        """Write this rank's files; may use collectives. Raises `OSError` where the disk does not take them."""

    def load(self, folder: Path) -> None:
        """Take up what `save` wrote. Raises `ValueError` with a sentence when it is of another model."""


@dataclass(frozen=True)
class TrainingPosition:
    """Where a training stands: what a checkpoint says of itself."""

    step: int
    epoch: int
    """Epochs that are done, their validation included."""
    steps_per_epoch: int
    value: float | None = None
    """The monitored loss, where the checkpoint is of the end of an epoch."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """What the course has to remember besides."""

    @property
    def done_in_epoch(self) -> int:
        """Steps of the epoch under way."""
        return self.step - self.epoch * self.steps_per_epoch


class BrokenCheckpointError(ValueError):
    """A checkpoint that is not whole. `str()` says in what way."""


def folders(run_dir: Path) -> list[Path]:
    """All finished checkpoints, the latest first; whether their files are whole is not looked at."""
    found = [(stand, path) for path in _candidates(run_dir) if (stand := _glance(path)) is not None]
    return [
        path for _, path in sorted(found, key=lambda pair: (pair[0].step, pair[0].epoch, pair[1].name), reverse=True)
    ]


def read(folder: Path) -> TrainingPosition:
    """Where training stood at a checkpoint. Raises `Broken` when a file is missing or not what was written."""
    manifest = _manifest(folder)
    for name, facts in manifest["files"].items():
        _check(folder / name, facts)
    return _stand(manifest)


def write(folder: Path, stand: TrainingPosition, facts: Mapping[str, object]) -> int:
    """Finish a checkpoint whose files are all there: note their CRC, bring all to the disk. Returns its bytes."""
    files = {path.name: _facts(path) for path in sorted(folder.iterdir())}
    manifest = {"version": VERSION, **asdict(stand), "done_in_epoch": stand.done_in_epoch, **facts, "files": files}
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    sync(path)
    sync(folder)
    return sum(int(each["bytes"]) for each in files.values())


def begin(run_dir: Path, name: str) -> Path:
    """An empty folder for a checkpoint that is being written; what a kill left half written goes."""
    parent = run_dir / CHECKPOINTS
    parent.mkdir(mode=0o700, exist_ok=True)
    for path in parent.glob("*"):
        ours = path.name.startswith(("step-", ".step-"))  # anything else here is somebody's
        if ours and (path.suffix == ".tmp" or (path.is_dir() and not (path / MANIFEST).exists())):
            shutil.rmtree(path, ignore_errors=True)
    temporary = temporary_folder(run_dir, name)
    temporary.mkdir(mode=0o700)
    return temporary


def temporary_folder(run_dir: Path, name: str) -> Path:
    """Where a checkpoint of this name is while it is being written."""
    return run_dir / CHECKPOINTS / f".{name}.tmp"


def publish(temporary: Path, name: str) -> Path:
    """Give a finished checkpoint its name: from now on it is one, or before, it was none."""
    final = temporary.parent / name
    os.rename(temporary, final)  # noqa: PTH104 (the atomic call, by its usual name)
    sync(final.parent)
    return final


def prune(run_dir: Path, keep: int, *, best: bool) -> None:
    """Remove all but the latest `keep` and, if wanted, the best."""
    every = folders(run_dir)
    kept = set(every[:keep])
    if best and (winner := best_of(every)) is not None:
        kept.add(winner)
    for path in every:
        if path not in kept:
            with contextlib.suppress(OSError):  # one too many does no harm
                (path / MANIFEST).unlink(missing_ok=True)  # first: half removed, it is none any more
                shutil.rmtree(path, ignore_errors=True)


def best_of(every: list[Path]) -> Path | None:
    """The one with the least monitored loss, the latest of equals; None where none was monitored."""
    values = [(stand.value, path) for path in every if (stand := _glance(path)) and stand.value is not None]
    return min(values, key=lambda pair: pair[0], default=(0.0, None))[1]


def sync(path: Path) -> None:
    """Bring a file, or a folder's entries, to the disk: a rename must not outlive the content after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _candidates(run_dir: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in (run_dir / CHECKPOINTS).iterdir() if path.name.startswith("step-")]
    return []


def _glance(folder: Path) -> TrainingPosition | None:
    try:
        return _stand(_manifest(folder))
    except BrokenCheckpointError:
        # Without a manifest it is none; with a broken one it was one, and has to be told of.
        return _named(folder) if (folder / MANIFEST).exists() else None


def _named(folder: Path) -> TrainingPosition | None:
    """What the name of a broken checkpoint tells."""
    digits = folder.name.removeprefix("step-").partition("-")[0]
    return TrainingPosition(step=int(digits), epoch=0, steps_per_epoch=1) if digits.isdecimal() else None


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["version"] > VERSION:
            raise BrokenCheckpointError("it was written by a newer Trainyard")
        _stand(manifest)
        assert isinstance(manifest["files"], dict)
    except OSError as error:
        raise BrokenCheckpointError(f"{MANIFEST} could not be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        if isinstance(error, BrokenCheckpointError):
            raise
        raise BrokenCheckpointError(f"{MANIFEST} is not what was written") from error
    return manifest


def _stand(manifest: Mapping[str, Any]) -> TrainingPosition:
    value = manifest["value"]
    return TrainingPosition(
        step=int(manifest["step"]),
        epoch=int(manifest["epoch"]),
        steps_per_epoch=int(manifest["steps_per_epoch"]),
        value=None if value is None else float(value),
        progress=dict(manifest["progress"]),
    )


def _facts(path: Path) -> dict[str, int]:
    sync(path)
    return {"bytes": path.stat().st_size, "crc32": _crc32(path)}


def _check(path: Path, facts: Mapping[str, int]) -> None:
    try:
        size = path.stat().st_size
        if size != facts["bytes"]:
            raise BrokenCheckpointError(f"{path.name} has {size} bytes where {facts['bytes']} were written")
        if _crc32(path) != facts["crc32"]:
            raise BrokenCheckpointError(f"the content of {path.name} is not what was written")
    except OSError as error:
        raise BrokenCheckpointError(f"{path.name} could not be read: {error.strerror}") from error


def _crc32(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc
