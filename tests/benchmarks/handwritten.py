"""The loops that throughput under the panel is compared with: written by hand, with no reporting at all.

    python handwritten.py single|ddp RECIPE EPOCHS BATCH_SIZE LEARNING_RATE CORE[,CORE]

Prints seconds per step, from the end of the first step to the end of the last.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def single(recipe: Any, epochs: int, batch_size: int, rate: float) -> float:
    import torch
    from torch import nn

    inputs, targets = recipe.train_data()
    torch.manual_seed(0)
    model = recipe.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    steps, began = 0, 0.0
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(inputs)).split(batch_size):
            optimizer.zero_grad()
            loss = loss_function(model(inputs[index]), targets[index])
            loss.backward()
            optimizer.step()
            steps += 1
            if steps == 1:
                began = time.perf_counter()
        validate(recipe, model, loss_function, batch_size)
    return (time.perf_counter() - began) / (steps - 1)


def ddp(recipe: Any, epochs: int, batch_size: int, rate: float, rank: int, ranks: int, rendezvous: str) -> float:
    import torch
    import torch.distributed as dist
    from torch import nn

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    inputs, targets = recipe.train_data()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(recipe.model())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    steps, began = 0, 0.0
    for _ in range(epochs):
        model.train()
        for whole in torch.randperm(len(inputs)).split(batch_size):
            index = whole.tensor_split(ranks)[rank]
            optimizer.zero_grad()
            loss = loss_function(model(inputs[index]), targets[index])
            loss.backward()
            optimizer.step()
            steps += 1
            if steps == 1:
                began = time.perf_counter()
        validate(recipe, model.module, loss_function, batch_size, rank, ranks)
    seconds = (time.perf_counter() - began) / (steps - 1)
    dist.destroy_process_group()
    return seconds


def validate(recipe: Any, model: Any, loss_function: Any, batch_size: int, rank: int = 0, ranks: int = 1) -> None:
    """Loss and metrics over this rank's share, as a loop that wants to know them computes them."""
    import torch

    if not hasattr(recipe, "val_data"):
        return
    inputs, targets = recipe.val_data()
    model.eval()
    with torch.no_grad():
        for whole in torch.arange(len(inputs)).split(batch_size):
            index = whole.tensor_split(ranks)[rank]
            if not len(index):
                continue
            output = model(inputs[index])
            loss_function(output, targets[index])
            for metric in recipe.metrics().values():
                metric(output, targets[index])


def main() -> None:
    kind, path, epochs, batch_size, rate, cores = sys.argv[1:7]
    pinned = [int(core) for core in cores.split(",")]
    arguments = (int(epochs), int(batch_size), float(rate))
    if kind == "single":
        os.sched_setaffinity(0, pinned)
        print(single(load(Path(path)), *arguments))
        return
    rendezvous = Path(tempfile.mkdtemp()) / "rendezvous"
    rank = 0
    for other in range(1, len(pinned)):
        if os.fork() == 0:
            rank = other
            break
    os.sched_setaffinity(0, [pinned[rank]])
    seconds = ddp(load(Path(path)), *arguments, rank, len(pinned), str(rendezvous))
    if rank == 0:
        print(seconds)


if __name__ == "__main__":
    main()
