"""Write and restore the checkpoints of a run, all ranks together, also over several machines."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from typing import TYPE_CHECKING

from ...language import tr
from ...schema import checkpoint, paths
from ...schema.checkpoint import BrokenCheckpointError, TrainingPosition
from ...schema.event_kinds import Checkpoint
from ...schema.files import FULL
from ...schema.paths import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ...schema.checkpoint import StateSaver
    from ..context import Context
    from .metrics_reporter import MetricsReporter


PIECE_BYTES = 16 * 1024 * 1024
"""Bytes of a file that travel at once."""


class CheckpointStore:
    """Write and restore checkpoints. Every rank makes the same calls in the same order."""

    def __init__(self, context: Context, reporter: MetricsReporter, saver: StateSaver) -> None:
        self._context, self._reporter, self._saver = context, reporter, saver
        self._run_dir = context.run_dir
        self._fault: OSError | None = None
        """Why this rank could not write."""
        self._failing = False
        """Whether the last checkpoint could not be written."""
        self.spent_s = self.spent_on_best_s = 0.0
        """Seconds spent on writing so far: by the run's interval or on request, and only since it was the best."""
        self.last_s = 0.0
        """Seconds spent on the last checkpoint."""

    def restore(self) -> TrainingPosition | None:
        """Restore the newest intact checkpoint and return its position. Return None if the run has no checkpoint.

        Raises `ValueError` when there are checkpoints but none is intact, or when they are of another model.
        """
        every = checkpoint.folders(self._run_dir)
        if not every:
            return None
        chosen = self._newest_intact(every) if self._context.rank == 0 else 0
        chosen = round(self._reporter.broadcast(chosen))
        # Another machine has only the one that was brought there.
        folder = every[0 if self._context.assignment.host else chosen]
        if self._context.rank == 0:
            for broken in every[:chosen]:  # else pruning would keep them as the latest, or the best
                with contextlib.suppress(OSError):
                    broken.rename(broken.with_name(f"broken-{broken.name}"))
        position = checkpoint.read(folder)
        self._saver.load(folder)
        return position

    def _newest_intact(self, every: list[Path]) -> int:
        faults: list[str] = []
        found = first_intact(every, faults)
        if found is not None:
            at, position = found
            if faults:
                self._context.notice(
                    tr(
                        "Skipped broken checkpoints: {faults}. Training went on from step {step}.",
                        faults=", ".join(faults),
                        step=position.step,
                    )
                )
            return at
        raise ValueError(
            tr(
                "All checkpoints of this run are broken: {faults}. Restore the files in {folder}, "
                "or remove them to train from the start.",
                faults=", ".join(faults),
                folder=every[0].parent,
            )
        )

    def write(self, position: TrainingPosition, reason: str) -> bool:
        """Write a checkpoint and return whether it is on the disk. Report a failure; training can go on."""
        began = time.monotonic()
        number = self._free_number(position) if self._context.rank == 0 else 0
        number = round(self._reporter.broadcast(number))
        name = _name(position, number) + (f"-{reason}" if reason == checkpoint.BEST else "") if number else ""
        size = self._write(name, position) if name else 0
        if size is None and self._free_space():
            size = self._write(name, position)
        self._report_fault(position, requested=reason in {"asked", "pause"})
        self.last_s = time.monotonic() - began
        if reason == checkpoint.BEST:
            self.spent_on_best_s += self.last_s
        else:
            self.spent_s += self.last_s
        if size and self._context.rank == 0:
            _, kept = checkpoint.best_of(checkpoint.folders(self._run_dir))
            self._context.record(
                Checkpoint(
                    step=position.step, epoch=position.epoch, name=name, reason=reason, seconds=self.last_s,
                    size_bytes=size, metric=position.progress["metric"], value=position.value, kept=kept,
                    lowest=position.progress["best"], lowest_epoch=position.progress["best_epoch"],
                )
            )
        return size is not None

    def _free_number(self, position: TrainingPosition) -> int:
        """Return a number whose name is unused, or 0 if this very checkpoint already exists."""
        number, parent = 1, self._run_dir / paths.CHECKPOINTS
        while (parent / _name(position, number) / checkpoint.MANIFEST).exists():
            try:
                if checkpoint.read(parent / _name(position, number)) == position:
                    return 0
            except BrokenCheckpointError:
                pass  # keep it for inspection; the new checkpoint gets another name
            number += 1
        return number

    def _write(self, name: str, position: TrainingPosition) -> int | None:
        """Write the files of all ranks and return their size in bytes, or None if any rank failed."""
        temporary = checkpoint.temporary_folder(self._run_dir, name)
        first = self._context.rank == 0
        size = 0

        def finish() -> None:
            nonlocal size
            spec = self._context.spec
            facts = {
                "framework": spec.framework, "strategy": spec.strategy, "world_size": self._context.world_size,
                "devices": list(spec.devices), "recipe": spec.own_recipe.name, "written": time.time(),
            }
            size = checkpoint.write(temporary, position, facts)
            checkpoint.publish(temporary, name)
            checkpoint.prune(self._run_dir, spec.checkpoints.keep, best=spec.checkpoints.best)

        steps: tuple[Callable[[], object], ...] = (
            lambda: checkpoint.begin(self._run_dir, name) if self._context.is_first_on_host else None,
            lambda: self._saver.save(temporary),
            lambda: self._reporter.collect_files(temporary),
            lambda: finish() if first else None,
        )
        if all(self._on_all_ranks(step) for step in steps):
            return size
        # Free the space before reporting: on a full disk the notice itself would end the run.
        if self._context.is_first_on_host:
            shutil.rmtree(temporary, ignore_errors=True)
        self._reporter.all_ok(ok=True)
        return None

    def _on_all_ranks(self, action: Callable[[], object]) -> bool:
        """Run the action, wait for all ranks, and return whether it succeeded on every one."""
        try:
            action()
        except OSError as error:
            self._fault = error
            return self._reporter.all_ok(ok=False)
        return self._reporter.all_ok(ok=True)

    def _free_space(self) -> bool:
        """Remove older checkpoints if the disk is full. Return whether any was removed."""
        full = self._fault is not None and self._fault.errno in FULL
        if not self._reporter.sum_over_ranks([float(full)])[0]:
            return False
        removed, kept = 0, self._context.spec.checkpoints
        if self._context.rank == 0:
            before = len(checkpoint.folders(self._run_dir))
            checkpoint.prune(self._run_dir, 1, best=kept.best)
            removed = before - len(checkpoint.folders(self._run_dir))
        removed = round(self._reporter.broadcast(removed))
        if removed:
            self._fault = None
        if removed and self._context.rank == 0:
            self._context.notice(
                tr(
                    "The disk is full: older ones of the last {count} checkpoints were removed to make room for new "
                    "ones. Free some space, or keep fewer checkpoints.",
                    count=kept.keep,
                )
            )
        return removed > 0

    def _report_fault(self, position: TrainingPosition, *, requested: bool) -> None:
        """Report a failure once until a checkpoint succeeds, and whenever the user has requested this checkpoint."""
        fault, self._fault = self._fault, None
        if fault is not None and (requested or not self._failing):
            self._context.notice(
                tr(
                    "The checkpoint at step {step} could not be written to {folder}: "
                    "{error}. The next checkpoint is tried when it is due. "
                    "Earlier checkpoints are kept.",
                    step=position.step,
                    folder=self._run_dir / paths.CHECKPOINTS,
                    error=fault.strerror or fault,
                )
            )
        self._failing = fault is not None


def _name(position: TrainingPosition, number: int) -> str:
    return f"step-{position.step:08d}" + (f"-{number}" if number > 1 else "")


class HostFiles:
    """Carries files of checkpoints between machines. Every rank makes the same calls in the same order.

    A checkpoint is in the run's folder on the machine of rank 0, so that no folder need be common to the machines.
    Nothing that arrives can run code: names and bytes are numbers.
    """

    def __init__(self, context: Context, broadcast: Callable[[int, bytes], bytes]) -> None:
        """`broadcast(rank, data)`: returns on all ranks the data that this rank gives; those of others are ignored."""
        self._context, self._broadcast = context, broadcast

    def fetch_checkpoint(self) -> None:
        """Bring the newest intact checkpoint from rank 0 to each of the other machines, if the run has any."""
        run_dir = self._context.run_dir
        every = checkpoint.folders(run_dir) if self._context.rank == 0 else []
        found = first_intact(every, [])
        folder = None if found is None else every[found[0]]
        name, names = self._told(0, "" if folder is None else folder.name, folder)
        if not name:
            return
        target = run_dir / CHECKPOINTS / name
        if self._is_away:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(mode=0o700, parents=True)
        faults = [
            _write(target / each if self._is_away else None,
                   self._sent(0, _pieces_of(None if folder is None else folder / each)))
            for each in names
        ]
        self._flags(False)  # the other ranks of a machine read what its first one has written
        _raise_any(faults)

    def collect(self, folder: Path) -> None:
        """Bring the files that ranks on other machines have written in this folder to the machine of rank 0.

        The folder is then removed on the other machines. Raises `OSError` on rank 0.
        """
        away = self._flags(self._is_away)  # by then the other ranks of a machine have written their files
        faults = []
        for rank in (rank for rank, sends in enumerate(away) if sends):
            mine = rank == self._context.rank
            _, names = self._told(rank, "", folder if mine else None)
            for each in names:
                pieces = _pieces_of(folder / each if mine else None)
                faults.append(_write(folder / each if self._context.rank == 0 else None, self._sent(rank, pieces)))
        if self._is_away:
            shutil.rmtree(folder, ignore_errors=True)
        _raise_any(faults)

    @property
    def _is_away(self) -> bool:
        """Whether this rank acts for a machine other than that of rank 0."""
        return self._context.assignment.host != 0 and self._context.is_first_on_host

    def _flags(self, flag: bool) -> list[bool]:
        """Return the flags of all ranks. No rank goes on before all have come here."""
        return [bool(self._broadcast(rank, b"1" if flag else b"")) for rank in range(self._context.world_size)]

    def _sent(self, rank: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield on all ranks the pieces that `rank` gives, without the empty one at the end."""
        own = iter(pieces)
        while piece := self._broadcast(rank, next(own, b"")):
            yield piece

    def _told(self, rank: int, name: str, folder: Path | None) -> tuple[str, list[str]]:
        """Return on all ranks the name that `rank` gives, and the names of the files in its folder."""
        files = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder is not None else []
        told: tuple[str, list[str]] = json.loads(self._broadcast(rank, json.dumps([name, files]).encode()))
        return told


def first_intact(folders: Sequence[Path], faults: list[str]) -> tuple[int, TrainingPosition] | None:
    """Return the number and position of the checkpoint that rank 0 restores, if any is intact; add faults of others."""
    for at, folder in enumerate(folders):
        try:
            return at, checkpoint.read(folder)
        except BrokenCheckpointError as fault:  # noqa: PERF203 (few folders)
            faults.append(f"{folder.name} ({fault})")
    return None


def _raise_any(faults: Iterable[OSError | None]) -> None:
    if fault := next(filter(None, faults), None):
        raise fault


def _pieces_of(path: Path | None) -> Iterable[bytes]:
    """Yield the bytes of a file in pieces, and the empty piece at its end; nothing for None."""
    if path is None:
        return
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
    yield b""


def _write(path: Path | None, pieces: Iterator[bytes]) -> OSError | None:
    """Write pieces into a file; without a path only receive them. Return why they could not be written.

    All are received in any case: the other ranks wait for this one.
    """
    fault: OSError | None = None
    try:
        if path is not None:
            with path.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
    except OSError as error:
        fault = error
    for _ in pieces:
        pass
    return fault


def other_model(folder: Path, detail: str) -> ValueError:
    """Return the error for a checkpoint that is of another model. `detail`: the first difference."""
    return ValueError(
        tr(
            "Checkpoint {folder} is of another model or optimizer: {detail}. "
            "Undo the changes to the recipe, or start a new run.",
            folder=folder.name,
            detail=detail,
        )
    )


def first_difference(saved: Mapping[str, Sequence[int]], wanted: Mapping[str, Sequence[int]]) -> str:
    """Describe the first tensor that a checkpoint has with another shape than a model, or alone; "" if none differs.

    Both have shapes by names. Of a name such as `3:sequential/dense/bias`, the position is left out.
    """
    for key in {**wanted, **saved}:  # in their order
        name = key.partition(":")[2] or key
        if key not in saved:
            return tr("it has no {name}", name=name)
        if key not in wanted:
            return tr("it has {name}, which this model does not have", name=name)
        if tuple(saved[key]) != tuple(wanted[key]):
            shapes = {"shape": tuple(saved[key]), "own_shape": tuple(wanted[key])}
            return tr("its {name} has the shape {shape}, this model's {own_shape}", name=name, **shapes)
    return ""
