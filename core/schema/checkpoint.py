"""Checkpoints on disk: written under a temporary name and renamed, so that a kill never leaves half a checkpoint.

checkpoints/step-00000230/          a folder per checkpoint, with the files of all ranks
    checkpoint.json                 the position of the training, and the size and CRC of every file; written last
checkpoints/.step-00000253.tmp/     a checkpoint that is being written, or was when its run was killed
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import zlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..language import tr
from .files import open_to_read, read_json
from .paths import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


VERSION = 1
MANIFEST = "checkpoint.json"
CHUNK_BYTES = 1 << 22
MAX_MANIFEST_BYTES = 1 << 20
MAX_LISTED = 2000
"""Entries of the folder of checkpoints that are looked at."""


class StateSaver(Protocol):
    """Saves and restores the state of a strategy. Called on every rank at the same step."""

    def save(self, folder: Path) -> None:
        """Write this rank's files; may use collectives. Raises `OSError` when the disk refuses them."""

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote. Raises `ValueError` with a sentence when it belongs to another model."""


@dataclass(frozen=True)
class TrainingPosition:
    """The position of a training at a checkpoint."""

    step: int
    epoch: int
    """Completed epochs, including their validation."""
    steps_per_epoch: int
    value: float | None = None
    """The monitored loss, if the checkpoint is from the end of an epoch."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Further state of the training controller."""

    @property
    def done_in_epoch(self) -> int:
        """Completed steps of the current epoch."""
        return self.step - self.epoch * self.steps_per_epoch


class BrokenCheckpointError(ValueError):
    """A checkpoint that is damaged. `str()` says how."""


def folders(run_dir: Path) -> list[Path]:
    """Return the folders of all finished checkpoints, latest first, without checking their files."""
    found = [(position, path) for path in _candidates(run_dir) if (position := _glance(path)) is not None]
    return [
        path for _, path in sorted(found, key=lambda pair: (pair[0].step, pair[0].epoch, pair[1].name), reverse=True)
    ]


def read(folder: Path) -> TrainingPosition:
    """Return the position at a checkpoint. Raises `BrokenCheckpointError` when a file is missing or damaged."""
    manifest = manifest_of(folder)
    for name, facts in manifest["files"].items():
        _check(folder / name, facts)
    return _position(manifest)


def write(folder: Path, position: TrainingPosition, facts: Mapping[str, object]) -> int:
    """Write the manifest of a checkpoint whose files are all there, and flush all to disk; return its size in bytes."""
    files = {}
    for path in sorted(folder.iterdir()):
        sync(path)
        files[path.name] = {"bytes": path.stat().st_size, "crc32": _crc32(path)}
    named = {"version": VERSION, **asdict(position), "done_in_epoch": position.done_in_epoch}
    manifest = {**named, **facts, "files": files}
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    sync(path)
    sync(folder)
    return sum(each["bytes"] for each in files.values())


def begin(run_dir: Path, name: str) -> Path:
    """Return an empty temporary folder for a new checkpoint; remove incomplete ones that a kill has left."""
    parent = run_dir / CHECKPOINTS
    parent.mkdir(mode=0o700, exist_ok=True)
    for path in parent.glob("*"):
        ours = path.name.startswith(("step-", ".step-"))  # any other name is a user's
        if ours and (path.suffix == ".tmp" or (path.is_dir() and not (path / MANIFEST).exists())):
            shutil.rmtree(path, ignore_errors=True)
    temporary = temporary_folder(run_dir, name)
    temporary.mkdir(mode=0o700)
    return temporary


def temporary_folder(run_dir: Path, name: str) -> Path:
    """Return the folder in which a checkpoint of this name is written."""
    return run_dir / CHECKPOINTS / f".{name}.tmp"


def publish(temporary: Path, name: str) -> Path:
    """Give a complete checkpoint its final name; only then does it count as one."""
    final = temporary.parent / name
    os.rename(temporary, final)  # noqa: PTH104 (the atomic call, by its usual name)
    sync(final.parent)
    return final


BEST = "best"
"""The reason and the end of the name of a checkpoint that was saved since its loss was the lowest so far."""


def prune(run_dir: Path, keep: int, *, best: bool) -> None:
    """Remove all checkpoints but, if `best`, the best, and the latest `keep` of those that were not saved for it."""
    every = folders(run_dir)
    kept = set([path for path in every if not path.name.endswith(BEST)][:keep])
    if best and (winner := best_of(every)[0]) is not None:
        kept.add(winner)
    for path in every:
        if path not in kept:
            with contextlib.suppress(OSError):  # one checkpoint too many does no harm
                (path / MANIFEST).unlink(missing_ok=True)  # first, so that a half removed checkpoint is none
                shutil.rmtree(path, ignore_errors=True)


def best_of(every: list[Path]) -> tuple[Path | None, float | None]:
    """Return the checkpoint with the lowest monitored loss, the latest of equals, and that loss; None for none."""
    values = [(path, found.value) for path in every if (found := _glance(path)) and found.value is not None]
    return min(values, key=lambda pair: pair[1], default=(None, None))


def sync(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk, so that after a power cut no name exists without its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _candidates(run_dir: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        found = itertools.islice((run_dir / CHECKPOINTS).iterdir(), MAX_LISTED)
        return [path for path in found if path.name.startswith("step-")]
    return []


def _glance(folder: Path) -> TrainingPosition | None:
    try:
        return _position(manifest_of(folder))
    except BrokenCheckpointError:
        # Without a manifest the folder is no checkpoint; with a damaged one it counts, so that the damage is reported.
        digits = folder.name.removeprefix("step-").partition("-")[0]
        if not (folder / MANIFEST).exists() or not digits.isdecimal() or len(digits) >= 19:
            return None
        return TrainingPosition(step=int(digits), epoch=0, steps_per_epoch=1)


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint. Raises `BrokenCheckpointError` when it is missing or damaged."""
    try:
        manifest: dict[str, Any] = read_json(folder / MANIFEST, MAX_MANIFEST_BYTES)
        if manifest["version"] > VERSION:
            raise BrokenCheckpointError(tr("it was written by a newer Trainyard"))
        _position(manifest)
        for name, facts in manifest["files"].items():
            if "/" in name or name in {"", ".", ".."}:
                raise BrokenCheckpointError(
                    tr("{manifest} names a file outside its folder: {name!r}", manifest=MANIFEST, name=name[:80])
                )
            assert {type(facts["bytes"]), type(facts["crc32"])} == {int}
    except OSError as error:
        raise BrokenCheckpointError(
            tr("{manifest} could not be read: {strerror}", manifest=MANIFEST, strerror=error.strerror)
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, AssertionError) as error:
        if isinstance(error, BrokenCheckpointError):
            raise
        raise BrokenCheckpointError(tr("{manifest} was changed or damaged", manifest=MANIFEST)) from error
    return manifest


def _position(manifest: Mapping[str, Any]) -> TrainingPosition:
    value = manifest["value"]
    counts = {name: int(manifest[name]) for name in ("step", "epoch", "steps_per_epoch")}
    return TrainingPosition(
        **counts, value=None if value is None else float(value), progress=dict(manifest["progress"])
    )


def _check(path: Path, facts: Mapping[str, int]) -> None:
    try:
        size = path.stat().st_size
        if size != facts["bytes"]:
            raise BrokenCheckpointError(
                tr("{path} has {size} bytes instead of {expected}", path=path.name, size=size, expected=facts["bytes"])
            )
        if _crc32(path) != facts["crc32"]:
            raise BrokenCheckpointError(tr("{path} was changed or damaged", path=path.name))
    except OSError as error:
        raise BrokenCheckpointError(
            tr("{path} could not be read: {strerror}", path=path.name, strerror=error.strerror)
        ) from error


def _crc32(path: Path) -> int:
    crc = 0
    with open_to_read(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc
