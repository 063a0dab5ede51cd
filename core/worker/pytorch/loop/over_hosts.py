"""What ranks on several machines do besides: meet at an address, check their link, and carry files to each other.

A checkpoint is in the run's folder on the machine of rank 0. Its files travel through the process group, so that no
folder need be common to the machines. Nothing that arrives can run code: names and bytes are tensors.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed import FileStore, Store, TCPStore  # type: ignore[attr-defined]  # documented, not declared

from ....language import tr
from ....schema import checkpoint
from ....schema.checkpoint import BrokenCheckpointError
from ....schema.paths import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from torch import Tensor

    from ....schema.rank import RankAssignment
    from ...context import Context

LINK_BYTES = 1024 * 1024
"""Size of the tensor that is summed over all ranks to check the link."""
LINK_TRIALS = 3
PIECE_BYTES = 16 * 1024 * 1024
"""Bytes of a file that travel at once."""


def open_store(assignment: RankAssignment, path: str) -> Store:
    """Return the store at which the ranks meet: a file, or for several machines an address that rank 0 listens on."""
    if not assignment.meeting:
        return FileStore(path, assignment.world_size)
    host, _, port = assignment.meeting.rpartition(":")
    if assignment.rank:
        return TCPStore(host, int(port), assignment.world_size, is_master=False)
    # On this address only: by itself, the store listens on all addresses of the machine.
    with socket.create_server((host, int(port)), reuse_port=False) as listener:
        descriptor = os.dup(listener.fileno())
    return TCPStore(
        host, int(port), assignment.world_size, is_master=True, wait_for_workers=False, master_listen_fd=descriptor
    )


def backend_of(kind: str) -> str:
    """Return the backend with which ranks exchange data: NCCL where their devices are GPUs, and else gloo."""
    return "gloo" if kind == "cpu" else "nccl"


def check_link(context: Context) -> None:
    """Sum a tensor over all ranks before anything trains, and record how fast that is, with either backend.

    Raises `RuntimeError` with a sentence if the sum is wrong or does not come.
    """
    device = _device()
    seconds = []
    for _ in range(LINK_TRIALS):
        tensor = torch.ones(LINK_BYTES // 4, device=device)
        float(tensor[0])  # waits until a GPU has filled it
        began = time.perf_counter()
        dist.all_reduce(tensor)  # a GPU may still work on it: the comparison waits for the end
        if not bool((tensor == context.world_size).all()):
            raise RuntimeError(
                tr("A test of the network between the machines gave wrong sums. Check it, then start the run again.")
            )
        seconds.append(time.perf_counter() - began)
    if context.rank == 0:
        context.record_link(
            bytes=LINK_BYTES,
            seconds=min(seconds),
            bytes_per_s=LINK_BYTES / max(min(seconds), 1e-9),
            backend=dist.get_backend(),
        )


def fetch_checkpoint(context: Context) -> None:
    """Bring the newest intact checkpoint from rank 0 to each of the other machines, if the run has any."""
    run_dir = context.run_dir
    folder = _newest_intact(run_dir) if context.rank == 0 else None
    name = _text(0, "" if folder is None else folder.name)
    if not name:
        return
    names: list[str] = json.loads(_text(0, json.dumps(_files(folder) if folder is not None else [])))
    writes = context.assignment.host != 0 and context.assignment.local_rank == 0
    target = run_dir / CHECKPOINTS / name
    if writes:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700, parents=True)
    faults = [
        _write(target / each if writes else None, _sent(0, _pieces_of(None if folder is None else folder / each)))
        for each in names
    ]
    dist.barrier()
    _raise_first(faults)


def collect_files(folder: Path, context: Context) -> None:
    """Bring the files that ranks on other machines have written in this folder to the machine of rank 0.

    The folder is then removed on the other machines. Every rank must call this. Raises `OSError` on rank 0.
    """
    assignment = context.assignment
    is_away = assignment.host != 0 and assignment.local_rank == 0
    away: list[int] = [int(each) for each in _gathered(float(is_away))]
    dist.barrier()  # the other ranks of a machine have written their files
    faults = []
    for rank in (rank for rank, sends in enumerate(away) if sends):
        mine = rank == context.rank
        names: list[str] = json.loads(_text(rank, json.dumps(_files(folder) if mine else [])))
        for each in names:
            pieces = _pieces_of(folder / each if mine else None)
            faults.append(_write(folder / each if context.rank == 0 else None, _sent(rank, pieces)))
    if is_away:
        shutil.rmtree(folder, ignore_errors=True)
    _raise_first(faults)


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


def _sent(rank: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield on all ranks the pieces that `rank` gives, without the empty one at the end."""
    own = iter(pieces)
    while piece := _bytes(rank, next(own, b"")):
        yield piece


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


def _text(rank: int, text: str) -> str:
    return _bytes(rank, text.encode()).decode()


def _bytes(rank: int, data: bytes) -> bytes:
    """Return on all ranks the bytes that `rank` gives."""
    device = _device()
    mine = dist.get_rank() == rank
    size = torch.tensor([len(data) if mine else 0], dtype=torch.int64, device=device)
    dist.broadcast(size, src=rank)
    count = int(size.item())
    if not count:
        return b""
    tensor = _tensor(data, device) if mine else torch.empty(count, dtype=torch.uint8, device=device)
    dist.broadcast(tensor, src=rank)
    return data if mine else tensor.cpu().numpy().tobytes() if _has_numpy() else bytes(tensor.cpu().tolist())


def _tensor(data: bytes, device: str) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device)


def _gathered(number: float) -> list[float]:
    """Return the numbers of all ranks."""
    device = _device()
    numbers = torch.zeros(dist.get_world_size(), dtype=torch.float64, device=device)
    numbers[dist.get_rank()] = number
    dist.all_reduce(numbers)
    found: list[float] = numbers.tolist()
    return found


def _has_numpy() -> bool:
    try:
        import numpy  # noqa: F401, ICN001  # PyTorch works without it
    except ImportError:
        return False
    return True


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"
