"""What the PyTorch strategies share: building from the recipe, one step's passes, validation."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ...spec import DEFAULT_LEARNING_RATE
from ..context import REPORT_EVERY_S
from ._data import Batches, as_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor
    from torch.utils.data import Dataset

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import MicroBatch

    Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Task:
    """A recipe's parts, built: all that a loop needs besides the loop."""

    model: nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    train: Batches
    val: Batches | None
    metrics: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    autocast: AbstractContextManager[Any] | None
    """For bfloat16, reusable; None for float32, since entering even an empty context costs microseconds a step."""


def build(recipe: LoadedRecipe, context: Context) -> Task:
    """The recipe's parts on this worker's device.

    The random states are set before each part, so that no part depends on what another drew. The model
    comes last: its weights and its dropout are those of a hand-written loop that calls
    `torch.manual_seed(seed)`, then `model()`, then trains. Ranks above 0 go on with a state of their
    own: else all would drop the same units.
    """
    seed = context.training.seed
    datasets = {name: _dataset(recipe, name, seed) for name in ("train_data", "val_data")}
    seed_everything(seed)
    model = recipe.call("model")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model() of {recipe.name} returned {type(model).__name__}. Return a torch.nn.Module.")
    device = claim_device(context)
    model = model.to(device)
    if context.rank:
        seed_everything(seed + context.rank)
    training = context.training
    bfloat16 = training.precision == "bfloat16"
    train = _batches(datasets["train_data"], context, device, training.accumulation)
    if training.batch_size > train.items and not context.rank:
        context.notice(
            f"The batch is {training.batch_size}, but there are {train.items} items: each step takes them all."
        )
    return Task(
        model=model,
        loss=recipe.call("loss") if recipe.has("loss") else nn.CrossEntropyLoss(),
        optimizer=_optimizer(recipe, context, model),
        train=train,
        val=_batches(datasets["val_data"], context, device, 1) if datasets["val_data"] is not None else None,
        metrics=_metrics(recipe),
        autocast=torch.autocast(device.type, torch.bfloat16) if bfloat16 else None,
    )


def seed_everything(seed: int) -> None:
    """Set the random states of Python, numpy (where torch brought it) and torch, on all devices."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    torch.manual_seed(seed)


def claim_device(context: Context) -> torch.device:
    """This rank's device, after a check that the process sees exactly the devices that were ticked.

    Raises `RuntimeError` with a sentence when it sees more or fewer.
    """
    placement = context.placement
    ticked = len(placement.devices)
    gpus = torch.cuda.device_count()
    context.seen(gpus=gpus, threads=torch.get_num_threads())
    if placement.kind == "cpu":
        if gpus:
            raise RuntimeError(f"This worker sees {gpus} GPUs where only CPU devices were ticked. Please report this.")
        return torch.device("cpu")
    if gpus != ticked:
        raise RuntimeError(
            f"This worker sees {gpus} CUDA devices where {ticked} were ticked ({', '.join(placement.devices)}). "
            f"{_cuda_advice()}"
        )
    device = torch.device("cuda", placement.rank)
    torch.cuda.set_device(device)
    return device


def _cuda_advice() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return f"PyTorch {torch.__version__} is built without CUDA: install a build that has it."
    return "Check that the driver fits this PyTorch: python -c 'import torch; torch.cuda.init()' says why."


def _dataset(recipe: LoadedRecipe, function: str, seed: int) -> Dataset[Any] | None:
    if function != "train_data" and not recipe.has(function):
        return None
    seed_everything(seed)
    return as_dataset(recipe.call(function), function)


def _batches(dataset: Dataset[Any] | None, context: Context, device: torch.device, accumulation: int) -> Batches:
    assert dataset is not None
    return Batches(
        dataset,
        batch_size=context.training.batch_size,
        device=device,
        rank=context.rank,
        world_size=context.world_size,
        accumulation=accumulation,
        loader_workers=context.training.loader_workers,
        seed=context.training.seed,
    )


def _optimizer(recipe: LoadedRecipe, context: Context, model: nn.Module) -> torch.optim.Optimizer:
    """The recipe's optimizer at the run's learning rate; Adam where the recipe has none."""
    rate = context.training.learning_rate
    if not recipe.has("optimizer"):
        return torch.optim.Adam(model.parameters(), lr=rate or DEFAULT_LEARNING_RATE)
    optimizer: torch.optim.Optimizer = recipe.call("optimizer", model.parameters())
    if rate is not None and not recipe.takes("optimizer", "learning_rate"):
        base = float(optimizer.defaults.get("lr") or 0)
        for group in optimizer.param_groups:  # groups keep the proportions that the recipe gave them
            group["lr"] = rate * float(group["lr"]) / base if base else rate
    return optimizer


def _metrics(recipe: LoadedRecipe) -> dict[str, Any]:
    metrics: dict[str, Any] = recipe.call("metrics") if recipe.has("metrics") else {}
    if "loss" in metrics:
        raise ValueError(
            f"metrics() of {recipe.name} has a metric called loss, which is the loss's own name. Rename it."
        )
    return metrics


def learning_rate(optimizer: torch.optim.Optimizer) -> float:
    """The first group's rate."""
    return float(optimizer.param_groups[0]["lr"])


def backward(task: Task, model: nn.Module, batch: MicroBatch, scale: float) -> Tensor:
    """One forward and backward pass; gradients are of `scale` times the mean loss. Returns the mean loss, detached."""
    if task.autocast is None:
        loss = task.loss(model(*batch.inputs), batch.target)
    else:
        with task.autocast:
            loss = task.loss(model(*batch.inputs), batch.target)
    if scale == 1.0:  # spares a small model a multiplication forth and back
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        (loss * scale).backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def passes(task: Task, model: nn.Module, micro_batches: list[MicroBatch]) -> Tensor:
    """All passes of one optimizer step in one process. Returns the mean loss over the batch, detached."""
    if len(micro_batches) == 1:
        return backward(task, model, micro_batches[0], 1.0)
    losses = [backward(task, model, batch, batch.share) * batch.share for batch in micro_batches]
    return torch.stack(losses).sum()


def was_cut_short(total: Tensor) -> bool:
    """Whether a validation of these sums ended early on any rank."""
    return bool(total[-1] > 0)


class Validation:
    """Sums over a validation set, so that means are weighted by size and ranks can be added up."""

    def __init__(self, task: Task, context: Context, model: nn.Module) -> None:
        self._task, self._context, self._model = task, context, model

    @torch.no_grad()
    def sums(self) -> Tensor:
        """This rank's sums of loss and metrics, how many items they are over, and 1 if it was cut short.

        Shape (1 + metrics + 2), on the device. A stop request cuts a long validation short.
        """
        task, batches = self._task, self._task.val
        assert batches is not None
        names = list(task.metrics)
        total = torch.zeros(len(names) + 3, dtype=torch.float64, device=batches.device)
        due = time.monotonic() + REPORT_EVERY_S
        self._model.eval()
        for step, (batch,) in enumerate(batches.in_order()):
            if batch.share:
                items = batch.share * batches.size(step)
                total[:-1] += items * torch.stack(self._measure(batch)).double()
            if time.monotonic() >= due:
                due = time.monotonic() + REPORT_EVERY_S
                if self._context.stop_requested():
                    total[-1] = 1
                    break
        self._model.train()
        return total

    def _measure(self, batch: MicroBatch) -> list[Tensor]:
        """Loss, metrics and 1, each the mean over the batch."""
        task = self._task
        with task.autocast or contextlib.nullcontext():
            output = self._model(*batch.inputs)
            loss = task.loss(output, batch.target)
        values = [loss, *(metric(output, batch.target) for metric in task.metrics.values())]
        return [torch.as_tensor(value, device=loss.device).float() for value in values] + [loss.new_ones(()).float()]

    def named(self, total: Tensor) -> dict[str, list[float]]:
        """The means by Keras' names; nothing when a rank was cut short."""
        *sums, items, cut = total.tolist()
        if cut or not items:
            return {}
        names = ["val_loss", *(f"val_{name}" for name in self._task.metrics)]
        return {name: [value / items] for name, value in zip(names, sums, strict=True)}
