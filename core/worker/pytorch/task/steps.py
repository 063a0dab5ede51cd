"""The passes of a step: of the recipe's loss, or of its own steps; its metrics on training batches."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ....language import tr, tr_noop
from ... import steps
from ...recipe import TRAINING_STEP
from ...steps import LOSS, VALIDATION_STEP, WEIGHT, has_steps, validates_itself, validating_function
from ...training import metrics
from ...training.metrics import Cost, median
from .data import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...recipe import LoadedRecipe
    from .build import Task
    from .data import MicroBatch

    Step = Callable[..., Any]
    Pass = tuple[Tensor, float | Tensor]
    """The mean loss of a pass, or loss and metrics of a recipe's own step, shape (1 + metrics), detached; and what they
    count: the share of the items, or the weight that the step gave."""
    Backward = Callable[[Task, Callable[..., Any], MicroBatch, float], Pass]
    """Makes a pass of the task with this model on a scale times the mean loss; a weight of the step replaces the
    scale."""


class StepModule(nn.Module):
    """The model with the recipe's steps as its forward pass.

    DDP and FSDP prepare their work in the forward pass of the module they wrap. With the whole step in it, a step may
    use any method of the model.
    """

    def __init__(self, model: nn.Module, training_step: Step, validation_step: Step | None) -> None:
        """`validation_step`: None to validate with the recipe's loss and metrics."""
        super().__init__()
        self.model = model
        self._training_step, self._validation_step = training_step, validation_step

    def forward(self, *arguments: Any) -> Any:  # noqa: ANN401 (a batch, or the model's arguments)
        """Return what the step of the mode returns, or the model's output."""
        model: Any = self._modules["model"]  # as `self.model`, which looks in several dicts, in each step
        if self.training:
            return self._training_step(model, *arguments)
        if self._validation_step is not None:
            return self._validation_step(model, *arguments)
        return model(*arguments)


class Measured(NamedTuple):
    """What a step returned."""

    loss: Tensor
    """A scalar with its graph."""
    values: Tensor
    """The loss and the other metrics, detached: shape () or (1 + metrics)."""
    weight: Tensor | None
    """What the loss counts among the batches of a step, such as its number of tokens: float64, shape (). None: the
    number of its items."""


class StepReader(steps.StepReader):
    keeps_graph = tr_noop("Compute it from the model's output without detach(), item() or no_grad().")

    def is_loss(self, value: object) -> bool:
        return isinstance(value, Tensor) and not value.ndim and value.is_floating_point()

    def is_number(self, value: object) -> bool:
        return isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)

    def kind(self, value: object) -> str:
        if isinstance(value, Tensor):
            return steps.tensor_kind(tuple(value.shape), value.dtype)
        return super().kind(value)

    def read(self, returned: Any) -> Measured:  # noqa: ANN401 (whatever the recipe returns)
        """Return loss, metrics and weight. Raises `TypeError` or `ValueError` with a sentence."""
        if self.only_loss and isinstance(returned, Tensor) and not returned.ndim and returned.is_floating_point():
            detached = returned.detach()  # of most steps, without the dict and in few calls: microseconds
            return Measured(returned, detached if detached.dtype is torch.float32 else detached.float(), None)
        values = self.checked(returned)
        assert self.names is not None, "`checked` has set them"
        loss: Tensor = values[LOSS]
        detached = loss.detach().float()
        if len(self.names) > 1:
            detached = torch.stack([detached, *(_scalar(values[name], loss) for name in self.names[1:])])
        weight = _scalar(values[WEIGHT], loss).double() if self.weighs else None
        return Measured(loss, detached, weight)


def _scalar(value: Any, like: Tensor) -> Tensor:  # noqa: ANN401 (a number, or a tensor of one element)
    """Return a metric or the weight as a scalar on the loss's device."""
    return torch.as_tensor(value, dtype=torch.float32, device=like.device).detach().reshape(())


def step_module(recipe: LoadedRecipe, model: nn.Module) -> nn.Module:
    """Return the module that strategies wrap: the model itself, or the model with the recipe's steps around it."""
    if not has_steps(recipe):
        return model
    training = recipe.bound(TRAINING_STEP, 3 if recipe.has("optimizers") else 2)
    validation = None
    if validates_itself(recipe):
        validation = recipe.bound(VALIDATION_STEP, 2) if recipe.has(VALIDATION_STEP) else training
    return StepModule(model, training, validation)


def readers(recipe: LoadedRecipe) -> tuple[StepReader | None, StepReader | None]:
    """Return what checks the results of training and validation; None for those made of the recipe's loss."""
    if not has_steps(recipe):
        return None, None

    def reader(function: str) -> StepReader:
        return StepReader(function, recipe.name_and_line(function))

    return reader(TRAINING_STEP), reader(validating_function(recipe)) if validates_itself(recipe) else None


def _backward(task: Task, loss: Tensor) -> None:
    if task.times is not None and task.times.runs:
        task.times.backward(loss)
    else:
        loss.backward()  # type: ignore[no-untyped-call]


def plain_pass(task: Task, model: Callable[..., Any], batch: MicroBatch, scale: float) -> Pass:
    """Make a pass of the model, the loss and nothing else."""
    loss = task.loss(model(*batch.inputs), batch.target)
    _backward(task, loss if scale == 1.0 else loss * scale)  # saves two multiplications
    return loss.detach(), batch.share


def measured_pass(task: Task, model: Callable[..., Any], batch: MicroBatch, scale: float) -> Pass:
    """Make a pass in the run's precision, and measure the metrics in the steps that do so."""
    if task.autocast is None:
        output = model(*batch.inputs)
        loss = task.loss(output, batch.target)
    else:
        with task.autocast:
            output = model(*batch.inputs)
            loss = task.loss(output, batch.target)
    if task.training_metrics is not None and task.training_metrics.is_due:
        with task.autocast or contextlib.nullcontext():
            task.training_metrics.measure(task.metrics, output, batch.target, batch.share)
    del output  # free before the backward pass
    scaled = loss if scale == 1.0 else loss * scale
    _backward(task, scaled if task.scaler is None else task.scaler.scale(scaled))
    return loss.detach(), batch.share


def step_pass(task: Task, module: Callable[..., Any], batch: MicroBatch, scale: float) -> Pass:
    """Make the pass of a recipe's own step."""
    assert task.training_step is not None
    if task.autocast is None:
        loss, values, weight = task.training_step.read(module(batch.data, *task.turn))
    else:
        with task.autocast:
            loss, values, weight = task.training_step.read(module(batch.data, *task.turn))
    if not loss.requires_grad:
        raise task.training_step.no_graph()
    if weight is None:
        loss = loss if scale == 1.0 else loss * scale
    else:
        weight = weight if batch.share else torch.zeros_like(weight)
        loss = loss.float() * weight.float()
    _backward(task, loss if task.scaler is None else task.scaler.scale(loss))
    return values, batch.share if weight is None else weight


class TrainingMetrics(metrics.TrainingMetrics):
    """Measures in the steps that are due.

    The metrics see the output as it was computed for the loss, with dropout, and run without gradients. A value is the
    mean over the global batch: micro-batches and ranks are weighted by their items.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        super().__init__(names)
        self._device = device
        self._parts: list[Tensor] = []
        """The current step's values, times the shares of its micro-batches."""
        self._watch = _Stopwatch(device)
        self._ended = time.perf_counter()
        """When the last step ended."""
        self._steps_s: list[float] = []

    def measure(self, metrics: Mapping[str, Callable[..., Any]], output: object, target: Tensor, share: float) -> None:
        """Measure a micro-batch whose items are this share of the global batch."""
        if not share:
            return  # an idle item
        self._watch.start()
        with torch.no_grad():
            output = output.detach() if isinstance(output, Tensor) else map_tensors(Tensor.detach, output)
            values = [self._scalar(name, metric(output, target)) for name, metric in metrics.items()]
            row = values[0].reshape(1) if len(values) == 1 else torch.stack(values)
            self._parts.append(row if share == 1.0 else row * share)
        self._watch.stop()

    def end_step(self, step: int) -> None:
        now = time.perf_counter()
        self._steps_s.append(now - self._ended)
        self._ended = now
        if not self.is_due:
            return
        row = self._parts[0] if self._parts else torch.zeros(len(self.names), device=self._device)
        for part in self._parts[1:]:
            row = row + part
        self._keep(step, row)
        self._parts = []

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values since the last report, and what they took; see the base class."""
        values = torch.stack(self._rows).flatten().tolist() if self._rows else []
        spent_s = self._watch.take()
        measured = len(self._rows) if spent_s else 0  # of a pipeline, only the last rank measures
        if self._device.type == "cpu":  # a GPU's steps end later than their calls
            elapsed_s = median(self._steps_s) * len(self._steps_s)
        self._rows, self._steps_s = [], []
        return values, Cost.of(spent_s, measured, elapsed_s)

    def _scalar(self, name: str, value: Any) -> Tensor:  # noqa: ANN401 (whatever the recipe's function returned)
        is_number = isinstance(value, (int, float, Tensor)) or hasattr(value, "item")
        found = torch.as_tensor(value, device=self._device) if is_number else None
        if found is not None and found.numel() == 1:
            return found.float().reshape(())
        kind = type(value).__name__
        raise TypeError(
            tr(
                "The metric {name!r} of metrics() returned {kind}. Return one number: the mean over the batch.",
                name=name,
                kind=kind if found is None else tr("a tensor of shape {shape}", shape=tuple(found.shape)),
            )
        )


class _Stopwatch:
    """Measures the time between starts and stops: the host's or, if that is more, the GPU's."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._began = 0.0
        self._spent_s: list[float] = []
        self._events: list[tuple[Any, Any]] = []  # torch's events are not typed

    def start(self) -> None:
        self._began = time.perf_counter()
        if self._is_cuda:
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))  # type: ignore[no-untyped-call]
            self._events[-1][0].record()

    def stop(self) -> None:
        if self._is_cuda:
            self._events[-1][1].record()
        self._spent_s.append(time.perf_counter() - self._began)

    def take(self) -> float:
        """Return the seconds since the last call. Call it when the GPU has done what was measured.

        The median stands for each time, here and for steps: when another process had the core, it was no cost of ours.
        """
        on_gpu_s = [begin.elapsed_time(end) / 1e3 for begin, end in self._events]
        found: float = max(median(self._spent_s), median(on_gpu_s)) * len(self._spent_s)
        self._spent_s, self._events = [], []
        return found
