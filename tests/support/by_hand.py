"""What the loops have that are written by hand, with which runs of PyTorch are compared."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn


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


def losses_by_hand(
    recipe: str, epochs: int, *, batch_size: int = 16, seed: int = 0,
    change: Callable[[nn.Module, torch.optim.Optimizer, int], object] = lambda *_: None,
) -> tuple[list[float], list[float]]:
    """Return the losses of a plain loop with cross entropy, and those of a validation after each epoch.

    `change`: called with model, optimizer and the number of the step between the backward pass and the step.
    """
    functions = functions_of(recipe)
    inputs, targets = functions["train_data"]()
    val_inputs, val_targets = functions["val_data"]()
    torch.manual_seed(seed)
    model = functions["model"]()
    optimizer = functions["optimizer"](model.parameters())
    losses, val_losses = [], []
    for number, index in enumerate(batches(len(inputs), epochs, batch_size, seed), 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.train()(inputs[index]), targets[index])
        loss.backward()
        change(model, optimizer, number)
        optimizer.step()
        losses.append(loss.item())
        if number % math.ceil(len(inputs) / batch_size) == 0:
            with torch.no_grad():
                val_losses.append(nn.functional.cross_entropy(model.eval()(val_inputs), val_targets).item())
    return losses, val_losses
