"""Build a task from a recipe in two steps, `prepare` and `complete`: between them a strategy may shard the model."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ....language import tr
from ...recipe import set_epoch_end, wrong_return
from ...steps import check_names, has_steps, takes_any_shape, turn_names
from ...streams import seed_plainly, stream_steps
from ..model import checkpoint_blocks, compile_module
from .data import Batches, Shares, as_dataset, is_stream, share_socket_folder
from .optimizers import LossScaler, build_optimizers, rates_of, recipe_schedule, turns_of
from .saver import undisturbed
from .steps import TrainingMetrics, measured_pass, plain_pass, readers, step_module, step_pass
from .stream import StreamBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor

    from ...context import Context
    from ...recipe import LoadedRecipe
    from .optimizers import RecipeSchedule
    from .step_times import StepTimes
    from .steps import Backward, StepReader
    from .stream import Source

    Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Task:
    """A recipe's parts, built: everything that a training loop needs."""

    model: nn.Module
    module: nn.Module
    """What strategies wrap and loops call: the model, with the recipe's own steps around it where it has them."""
    loss: Loss
    optimizer: torch.optim.Optimizer
    """The recipe's, or the first of several."""
    train: Batches | StreamBatches
    val: Batches | StreamBatches | None
    metrics: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    autocast: AbstractContextManager[Any] | None
    """For bfloat16 and float16, reusable. None for float32: entering even an empty context costs microseconds per
    step."""
    schedule: RecipeSchedule | None = None
    """The recipe's own schedule of the learning rate."""
    training_step: StepReader | None = None
    """Reads what the recipe's own `training_step` returns; None to train with `loss`."""
    validation_step: StepReader | None = None
    """Reads what the recipe's own `validation_step` returns; None to validate with `loss` and `metrics`."""
    training_metrics: TrainingMetrics | None = None
    """Measures `metrics` on training batches, too."""
    rates: Callable[[], list[list[float]]] = list
    """Returns, for each optimizer and each of its groups, the rate that the recipe gives it at the run's learning
    rate, which may have changed."""
    scaler: LossScaler | None = None
    """Scales the loss, for float16."""
    turns: tuple[Task, ...] = ()
    """A task for each of several optimizers; empty for one."""
    turn: tuple[str, ...] = ()
    """In such a task, the name of its optimizer: what the recipe's step gets after the batch."""

    times: StepTimes | None = None
    """Measures where the time of a step goes, in few steps."""

    def __post_init__(self) -> None:
        is_plain = self.autocast is None and self.training_metrics is None and self.scaler is None
        self.backward: Backward = plain_pass if is_plain else measured_pass
        """Makes a pass. Chosen once: a small model takes microseconds for one."""
        if self.training_step is not None:
            self.backward = step_pass
        self.forward: Callable[..., Any] = self.module if self.training_step is None else self.module.forward
        """The forward pass where no strategy wraps the module: a recipe's own step needs none of its hooks."""

    @property
    def value_names(self) -> Sequence[str]:
        """What each step is reported with: the loss, and the metrics of the recipe's own step."""
        if self.turns:
            return turn_names({each.turn[0]: each.training_step for each in self.turns if each.training_step})
        return (self.training_step and self.training_step.names) or ("loss",)


@dataclass(frozen=True, kw_only=True)
class Unplaced:
    """A recipe's model, on the CPU or where it was made, and its data."""

    model: nn.Module
    train: Batches | StreamBatches
    val: Batches | StreamBatches | None
    device: torch.device


def build(recipe: LoadedRecipe, context: Context) -> Task:
    """Build the recipe's parts on this worker's device, for strategies that keep the whole model on each device.

    The seed is set before each part, so that no part depends on random numbers of another. The model comes last: its
    weights and dropout are those of a hand-written loop that calls `torch.manual_seed(seed)`, then `model()`, then
    trains. Ranks above 0 continue with another seed: else all would drop the same units.
    """
    raw = prepare(recipe, context)
    task = complete(recipe, context, raw, raw.model.to(raw.device))
    set_epoch_end(recipe, context, task.model, partial(undisturbed, task.model))
    return task


def prepare(
    recipe: LoadedRecipe,
    context: Context,
    *,
    whole_batches: bool = False,
    making: AbstractContextManager[Any] | None = None,
) -> Unplaced:
    """Build data and model, the model on the CPU unless the run makes it on its device.

    `whole_batches`: each rank gets whole global batches instead of slices. `making`: entered while the model is made.
    """
    seed = context.training.seed
    if context.training.loader_workers:
        share_socket_folder(context.run_dir)
    device = claim_device(context)  # first, so that the recipe's "cuda" is this rank's device
    data = {}
    for function in ("train_data", "val_data"):
        if function == "train_data" or recipe.has(function):
            seed_everything(seed)
            data[function] = recipe.call(function)
            if data[function] is None:
                as_dataset(None, function)  # raises the error with the remedy
    # A device as a context: new tensors are on it unless they name another.
    with making or (device if context.training.make_on_device else contextlib.nullcontext()):
        model = build_model(recipe, "model", seed)
    make = partial(_batches, recipe, context, device, whole=whole_batches)
    train = make("train_data", data["train_data"])
    val = make("val_data", data["val_data"]) if "val_data" in data else None
    context.notice_large_batch(train.items)
    return Unplaced(model=model, train=train, val=val, device=device)


def build_model(recipe: LoadedRecipe, function: str, seed: int, *arguments: object) -> nn.Module:
    """Call a function of the recipe that returns a model; the seed fixes its weights. Raises `TypeError`."""
    seed_everything(seed)
    model = recipe.call(function, *arguments)
    if not isinstance(model, nn.Module):
        raise wrong_return(function, recipe, model, tr("Return a torch.nn.Module."))
    return model


def complete(
    recipe: LoadedRecipe,
    context: Context,
    raw: Unplaced,
    model: nn.Module,
    module: nn.Module | None = None,
    *,
    is_compiled: bool = False,
) -> Task:
    """Build the task for the model as the strategy has prepared it: the optimizer gets its parameters.

    `module`: what the strategy has wrapped already; see `step_module`. `is_compiled`: its blocks are compiled already.
    """
    training_step, validation_step = readers(recipe)
    training, device = context.training, raw.device
    if training.activation_checkpointing:
        checkpoint_blocks(model, compiled=training.compile)
    elif training.compile and not is_compiled:
        compile_module(model)
    # Each rank, or each of several GPUs of one process, is seeded by itself: else all would drop the same units.
    if context.rank:
        seed_everything(training.seed + context.rank)
    if device.type == "cuda" and context.world_size == 1:
        for number, generator in enumerate(torch.cuda.default_generators):
            generator.manual_seed(training.seed + number)
    optimizers = build_optimizers(recipe, context, model)
    first = next(iter(optimizers.values()))
    loss = build_loss(recipe, device)
    metrics = {name: _on(device, each) for name, each in recipe.metrics().items()}
    # A step of the recipe's own reports its metrics itself.
    measures = bool(metrics) and training.training_metrics and not has_steps(recipe)
    if measures:
        check_names("metrics", recipe.name, metrics)
    task = Task(
        model=model,
        module=module or step_module(recipe, model),
        loss=loss,
        optimizer=first,
        train=raw.train,
        val=raw.val,
        metrics=metrics,
        autocast=autocast_of(context, device),
        training_step=training_step,
        validation_step=validation_step,
        training_metrics=TrainingMetrics(metrics, device) if measures else None,
        rates=partial(rates_of, recipe, context, model),
        scaler=LossScaler(device) if training.precision == "float16" else None,
    )
    if recipe.has("optimizers"):
        task.turns = turns_of(task, recipe, context, optimizers)
    else:
        task.schedule = recipe_schedule(recipe, first, raw.train.steps * training.epochs)
    return task


def build_loss(recipe: LoadedRecipe, device: torch.device) -> Loss:
    """Return the recipe's loss, or cross entropy on logits."""
    loss: Loss = _on(device, recipe.call("loss") if recipe.has("loss") else nn.CrossEntropyLoss())
    return loss


def autocast_of(context: Context, device: torch.device) -> AbstractContextManager[Any] | None:
    """Return a reusable context for bfloat16 or float16, or None for float32."""
    precision = context.training.precision
    return None if precision == "float32" else torch.autocast(device.type, getattr(torch, precision))


def _on(device: torch.device, measure: Any) -> Any:  # noqa: ANN401 (a function, or a module with tensors: class weights)
    return measure.to(device) if isinstance(measure, nn.Module) else measure


def _batches(
    recipe: LoadedRecipe, context: Context, device: torch.device, function: str, data: object, *, whole: bool
) -> Batches | StreamBatches:
    """Return what this function of the recipe returned in global batches. `whole`: each rank gets all of each."""
    training, trains = context.training, function == "train_data"
    any_shape, collate = takes_any_shape(recipe, function), recipe.collate
    rank, world_size = (0, 1) if whole else (context.rank, context.world_size)
    accumulation = training.accumulation if trains and not whole else 1
    if not is_stream(data):
        return Batches(
            as_dataset(data, function, any_shape=any_shape),
            batch_size=training.batch_size, device=device, rank=rank, world_size=world_size, accumulation=accumulation,
            loader_workers=training.loader_workers, seed=training.seed, any_shape=any_shape, collate=collate,
            steps=training.steps_per_epoch if trains else None,
        )
    if whole:
        raise ValueError(
            tr(
                "{function}() returned a stream, which a pipeline cannot read: each stage needs to know its end. "
                "Choose strategy ddp or fsdp.",
                function=function,
            )
        )
    return StreamBatches(
        _source(recipe, function, data, training.loader_workers), function,
        shares=Shares(training.batch_size, rank, world_size, accumulation), device=device,
        steps=stream_steps(data, training) if trains else None,
        loader_workers=training.loader_workers, seed=training.seed, any_shape=any_shape, collate=collate,
    )


def _source(recipe: LoadedRecipe, function: str, stream: Any, workers: int) -> Source:  # noqa: ANN401 (whatever iterates)
    """Return a function that returns the stream from its beginning. A generator is made again for each epoch."""
    if not inspect.isgenerator(stream):
        return lambda: stream
    if workers:
        raise ValueError(
            tr(
                "{function}() returned a generator, which no other process can read. Set the data-loader workers to 0, "
                "or return an IterableDataset.",
                function=function,
            )
        )
    return lambda: recipe.call(function)


def seed_everything(seed: int) -> None:
    """Seed Python, numpy (if it is loaded) and torch on all devices."""
    seed_plainly(seed)
    torch.manual_seed(seed)


def claim_device(context: Context) -> torch.device:
    """Return this rank's device. Raises `RuntimeError` unless the process sees exactly the ticked devices."""
    gpus = torch.cuda.device_count()
    context.check_seen(gpus, torch.get_num_threads(), context.assignment.devices, _cuda_advice)
    if context.assignment.kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", context.assignment.local_rank)
    torch.cuda.set_device(device)
    return device


def _cuda_advice() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return tr("PyTorch {version} is built without CUDA: install a build that has it.", version=torch.__version__)
    return tr("Check that the driver fits this PyTorch: python -c 'import torch; torch.cuda.init()' says why.")
