"""What the loops have that are written by hand, with which runs of PyTorch are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch


def functions_of(recipe: str) -> dict[str, Any]:
    """Return what a recipe defines. From now on, PyTorch has one thread here, as in a worker pinned to one core."""
    torch.set_num_threads(1)
    functions: dict[str, Any] = {}
    exec(compile(Path(recipe).read_text(), recipe, "exec"), functions)
    return functions


def batches(items: int, epochs: int, batch_size: int = 16, seed: int = 0) -> Iterator[torch.Tensor]:
    """Yield the numbers of the items of each step, in the order of a run."""
    for epoch in range(epochs):
        order = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        yield from torch.randperm(items, generator=order).split(batch_size)
