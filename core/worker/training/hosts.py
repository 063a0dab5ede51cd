"""What the machines of a run send each other: the files of checkpoints; and the check of their link.

A checkpoint is in the run's folder on the machine of rank 0, so that no folder need be common to the machines. Nothing
that arrives can run code: names and bytes are numbers.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, TypeVar

from ...language import tr
from ...schema import checkpoint
from ...schema.checkpoint import BrokenCheckpointError
from ...schema.event_kinds import LinkSpeed
from ...schema.paths import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ..context import Context

PIECE_BYTES = 16 * 1024 * 1024
"""Bytes of a file that travel at once."""
LINK_BYTES = 1024 * 1024
"""Size of the tensor that is summed over all ranks."""
TRIALS = 3
Ones = TypeVar("Ones")


class HostFiles:
    """Carries files between machines. Every rank makes the same calls in the same order."""

    def __init__(self, context: Context, broadcast: Callable[[int, bytes], bytes]) -> None:
        """`broadcast(rank, data)`: returns on all ranks the data that this rank gives; those of others are ignored."""
        self._context, self._broadcast = context, broadcast

    def fetch_checkpoint(self) -> None:
        """Bring the newest intact checkpoint from rank 0 to each of the other machines, if the run has any."""
        run_dir = self._context.run_dir
        folder = _newest_intact(run_dir) if self._context.rank == 0 else None
        name = self._text(0, "" if folder is None else folder.name)
        if not name:
            return
        names: list[str] = json.loads(self._text(0, json.dumps(_files(folder) if folder is not None else [])))
        target = run_dir / CHECKPOINTS / name
        if self._is_away:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(mode=0o700, parents=True)
        faults = [
            _write(target / each if self._is_away else None,
                   self._sent(0, _pieces_of(None if folder is None else folder / each)))
            for each in names
        ]  # fmt: skip
        self._flags(False)  # the other ranks of a machine read what its first one has written
        _raise_first(faults)

    def collect(self, folder: Path) -> None:
        """Bring the files that ranks on other machines have written in this folder to the machine of rank 0.

        The folder is then removed on the other machines. Raises `OSError` on rank 0.
        """
        away = self._flags(self._is_away)  # by then the other ranks of a machine have written their files
        faults = []
        for rank in (rank for rank, sends in enumerate(away) if sends):
            mine = rank == self._context.rank
            names: list[str] = json.loads(self._text(rank, json.dumps(_files(folder) if mine else [])))
            for each in names:
                pieces = _pieces_of(folder / each if mine else None)
                faults.append(_write(folder / each if self._context.rank == 0 else None, self._sent(rank, pieces)))
        if self._is_away:
            shutil.rmtree(folder, ignore_errors=True)
        _raise_first(faults)

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

    def _text(self, rank: int, text: str) -> str:
        return self._broadcast(rank, text.encode()).decode()


def _newest_intact(run_dir: Path) -> Path | None:
    """Return the checkpoint that rank 0 will restore; None if there is none, or none is intact."""
    for folder in checkpoint.folders(run_dir):
        try:
            checkpoint.read(folder)
        except BrokenCheckpointError:
            continue
        return folder
    return None


def _raise_first(faults: Iterable[OSError | None]) -> None:
    for fault in faults:
        if fault is not None:
            raise fault


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


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


def check_link(context: Context, backend: str, ones: Callable[[], Ones], is_summed: Callable[[Ones], bool]) -> None:
    """Sum a tensor of ones over all ranks, and record the shortest time as a `LinkSpeed`.

    `backend`: with which the ranks exchange data. `ones`: makes the tensor, shape (LINK_BYTES / 4,), float32.
    `is_summed`: sums it, and returns whether each number is the world size. Raises `RuntimeError` with a sentence if
    the sum is wrong.
    """
    seconds = []
    for _ in range(TRIALS):
        tensor = ones()
        began = time.perf_counter()
        if not is_summed(tensor):
            raise RuntimeError(
                tr("A test of the network between the machines gave wrong sums. Check it, then start the run again.")
            )
        seconds.append(time.perf_counter() - began)
    if context.rank == 0:
        bytes_per_s = LINK_BYTES / max(min(seconds), 1e-9)
        context.record(LinkSpeed(size_bytes=LINK_BYTES, seconds=min(seconds), bytes_per_s=bytes_per_s, backend=backend))
