"""What ranks on several machines do besides: meet at an address, check their link, and send each other bytes."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed import FileStore, Store, TCPStore  # type: ignore[attr-defined]  # documented, not declared

from ...training import link_check
from ...training.link_check import LINK_BYTES

if TYPE_CHECKING:
    from torch import Tensor

    from ....schema.rank import RankAssignment
    from ...context import Context


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
    """Check the link between the ranks, with either backend: see `link_check`."""
    device = _device()

    def ones() -> Tensor:
        tensor = torch.ones(LINK_BYTES // 4, device=device)
        float(tensor[0])  # waits until a GPU has filled it
        return tensor

    def is_summed(tensor: Tensor) -> bool:
        dist.all_reduce(tensor)  # a GPU may still work on it: the comparison waits for the end
        return bool((tensor == context.world_size).all())

    link_check.check_link(context, dist.get_backend(), ones, is_summed)


def broadcast_bytes(rank: int, data: bytes) -> bytes:
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


def _has_numpy() -> bool:
    try:
        import numpy  # noqa: F401, ICN001  # PyTorch works without it
    except ImportError:
        return False
    return True


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"
