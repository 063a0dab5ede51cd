"""The checkpoints of a run, as its ranks write and find them together."""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

from ..schema import checkpoint, paths
from ..schema.checkpoint import BrokenCheckpointError, TrainingPosition
from ..schema.files import FULL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..schema.checkpoint import StateSaver
    from .context import Context
    from .metrics_reporter import MetricsReporter


class CheckpointStore:
    """Writes and finds checkpoints. Every rank calls the same, in step; rank 0 does what is done once."""

    def __init__(self, context: Context, meter: MetricsReporter, saver: StateSaver) -> None:
        self._context, self._meter, self._saver = context, meter, saver
        self._run_dir = context.run_dir
        self._fault: OSError | None = None
        """What kept this rank from writing."""
        self._failing = False
        """Whether the last one could not be written."""
        self.spent_s = 0.0
        """Seconds that writing has taken so far."""
        self.last_s = 0.0
        """Seconds that the last one took."""

    def take_up(self) -> TrainingPosition | None:
        """Go to the newest whole checkpoint; None where there is none at all.

        Raises `ValueError` with a sentence when there are some, but none is whole, or it is another model's.
        """
        every = checkpoint.folders(self._run_dir)
        if not every:
            return None
        chosen = self._newest_whole(every) if self._context.rank == 0 else 0
        folder = every[round(self._meter.agree(chosen))]
        if self._context.rank == 0:
            for broken in every[:chosen]:  # else they would be kept as the latest, or the best, in place of whole ones
                with contextlib.suppress(OSError):
                    broken.rename(broken.with_name(f"broken-{broken.name}"))
        stand = checkpoint.read(folder)
        self._saver.load(folder)
        return stand

    def _newest_whole(self, every: list[Path]) -> int:
        faults = []
        for at, folder in enumerate(every):
            try:
                stand = checkpoint.read(folder)
            except BrokenCheckpointError as fault:
                faults.append(f"{folder.name} ({fault})")
                continue
            if faults:
                self._context.notice(
                    f"Broken and passed over: {', '.join(faults)}. Training goes on from step {stand.step}."
                )
            return at
        raise ValueError(
            f"No checkpoint of this run is whole: {', '.join(faults)}. Bring the files in {every[0].parent} back, "
            "or remove them to begin from the start."
        )

    def put(self, stand: TrainingPosition, reason: str) -> bool:
        """Write a checkpoint; whether it is on the disk now. What kept it from it is told, and training can go on."""
        began = time.monotonic()
        name = self._free_name(stand)
        size = self._write(name, stand) if name else 0
        if size is None and self._made_room():
            size = self._write(name, stand)
        self._tell_faults(stand, answers=reason in {"asked", "pause"})
        self.last_s = time.monotonic() - began
        self.spent_s += self.last_s
        if size and self._context.rank == 0:
            self._tell(name, stand, reason, size)
        return size is not None

    def _free_name(self, stand: TrainingPosition) -> str:
        """A name that is not taken; no text when this very checkpoint is there already. Rank 0 says which."""
        number = self._free_number(stand) if self._context.rank == 0 else 0
        number = round(self._meter.agree(number))
        return _name(stand, number) if number else ""

    def _free_number(self, stand: TrainingPosition) -> int:
        number, parent = 1, self._run_dir / paths.CHECKPOINTS
        while (parent / _name(stand, number) / checkpoint.MANIFEST).exists():
            try:
                if checkpoint.read(parent / _name(stand, number)) == stand:
                    return 0
            except BrokenCheckpointError:
                pass  # it stays for who wants to look; the new one gets another name
            number += 1
        return number

    def _write(self, name: str, stand: TrainingPosition) -> int | None:
        """The size in bytes; None when it could not be written, on whichever rank."""
        temporary = checkpoint.temporary_folder(self._run_dir, name)
        first = self._context.rank == 0
        size = 0

        def finish() -> None:
            nonlocal size
            size = checkpoint.write(temporary, stand, self._facts())
            checkpoint.publish(temporary, name)
            kept = self._context.spec.checkpoints
            checkpoint.prune(self._run_dir, kept.keep, best=kept.best)

        steps: tuple[Callable[[], object], ...] = (
            lambda: checkpoint.begin(self._run_dir, name) if first else None,
            lambda: self._saver.save(temporary),
            lambda: finish() if first else None,
        )
        if all(self._together(step) for step in steps):
            return size
        # Room first: on a disk that it has filled, a notice itself would end the run.
        if first:
            shutil.rmtree(temporary, ignore_errors=True)
        self._meter.all_well(ok=True)
        return None

    def _together(self, action: Callable[[], object]) -> bool:
        """Whether it went well on all ranks; none goes on before all are done."""
        try:
            action()
        except OSError as error:
            self._fault = error
            return self._meter.all_well(ok=False)
        return self._meter.all_well(ok=True)

    def _made_room(self) -> bool:
        """Whether older checkpoints made way for another try: on a full disk the newest is worth more than many."""
        full = self._fault is not None and self._fault.errno in FULL
        if not self._meter.add_up([float(full)])[0]:
            return False
        made = self._drop_older() if self._context.rank == 0 else 0
        made = round(self._meter.agree(made))
        if made:
            self._fault = None
        return made > 0

    def _drop_older(self) -> int:
        before = len(checkpoint.folders(self._run_dir))
        kept = self._context.spec.checkpoints
        checkpoint.prune(self._run_dir, 1, best=kept.best)
        dropped = before - len(checkpoint.folders(self._run_dir))
        if dropped:
            self._context.notice(
                f"The disk is full: of the last {kept.keep} checkpoints that are to be kept, older ones make way for "
                "new ones. Free some room, or keep fewer."
            )
        return dropped

    def _tell_faults(self, stand: TrainingPosition, *, answers: bool) -> None:
        """Say once why checkpoints cannot be written, until one was; and whenever somebody waits for one."""
        fault, self._fault = self._fault, None
        if fault is not None and (answers or not self._failing):
            self._context.notice(
                f"The checkpoint at step {stand.step} could not be written to {self._run_dir / paths.CHECKPOINTS}: "
                f"{fault.strerror or fault}. Training goes on, and it is tried again when the next is due; "
                "the earlier ones are kept."
            )
        self._failing = fault is not None

    def _facts(self) -> dict[str, object]:
        spec = self._context.spec
        return {
            "framework": spec.framework,
            "strategy": spec.strategy,
            "world_size": self._context.world_size,
            "recipe": spec.own_recipe.name,
            "written": time.time(),
        }

    def _tell(self, name: str, stand: TrainingPosition, reason: str, size_bytes: int) -> None:
        winner = checkpoint.best_of(checkpoint.folders(self._run_dir))
        self._context.saved(
            step=stand.step, epoch=stand.epoch, name=name, reason=reason, seconds=self.last_s, bytes=size_bytes,
            best=winner is not None and winner.name == name,
        )  # fmt: skip


def _name(stand: TrainingPosition, number: int) -> str:
    return f"step-{stand.step:08d}" + (f"-{number}" if number > 1 else "")
