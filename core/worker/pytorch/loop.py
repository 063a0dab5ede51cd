"""The training loop of all PyTorch strategies: the passes of a step, the optimizer's step, the validation."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grad_norm_

from ..training.controller import TrainingController, size_of
from ..training.metrics import means_by_name
from ..training.metrics_reporter import MetricsReporter
from .first_nan import NumberWatch
from .model import own_part
from .task.optimizers import check_used, merge_turns
from .task.saver import Saver
from .task.step_times import StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor, nn

    from ...schema.checkpoint import StateSaver
    from ..context import Context
    from ..training.metrics import Values
    from ..training.metrics_reporter import Ranks
    from .task.build import Task
    from .task.data import MicroBatch
    from .task.steps import Pass

    Clip = Callable[[Iterable[nn.Parameter], float], object]
    Agree = Callable[[Tensor], object]
    Accumulate = Callable[[Task, Any], Any]
    """Makes the passes of a step on a batch: returns the mean loss, or this rank's and its share."""
    Own = tuple[float | Tensor, Sequence[Tensor]] | None
    """What this rank has measured on a batch: the items, or a weight, and the means over them; None for nothing."""


def stepper(
    task: Task,
    context: Context,
    controller: TrainingController,
    accumulate: Accumulate,
    times: StepTimes,
    *,
    clip: Clip = clip_grad_norm_,
    agree: Agree | None = None,
) -> Callable[[Any], Any]:
    """Return the function that makes one whole step on a batch, and returns what `accumulate` does.

    `clip` scales the gradients of a whole model in place to a largest norm. `agree` sets a number to the largest of all
    ranks; for strategies whose ranks have parts of the gradients.
    """
    training = context.training
    changes = training.weight_decay is not None or training.gradient_clip is not None or controller.rate_varies
    updates: list[tuple[Task, Callable[[], object]]] = [
        (each, times.timed(
            _Update(each, context, controller, clip, agree)
            if changes or each.schedule is not None or each.scaler is not None
            else each.optimizer.step,
            "", "optimizer",
        ))
        for each in task.turns or (task,)
    ]
    controller.live.apply_rate = partial(_apply_rates, task, updates)
    if task.turns:
        return times.watching(_in_turns(updates, accumulate))
    zero_grad, update = task.optimizer.zero_grad, updates[0][1]

    def step(batch: Any) -> Any:  # noqa: ANN401 (as `accumulate`)
        zero_grad()
        found = accumulate(task, batch)
        update()
        return found

    return times.watching(step)


def _apply_rates(task: Task, updates: Sequence[tuple[Task, Callable[[], object]]]) -> float:
    """Give all optimizers their rates at the run's learning rate as it is now; see `LiveRequests.apply_rate`."""
    every = task.rates()
    for (each, update), rates in zip(updates, every, strict=True):
        for group, rate in zip(each.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        if isinstance(update, _Update):
            update.rates = rates
    return every[0][0]


class _Update:
    """Makes an optimizer step with the run's schedule, weight decay and gradient clipping, where one of them is set."""

    def __init__(
        self, task: Task, context: Context, controller: TrainingController, clip: Clip, agree: Agree | None
    ) -> None:
        optimizer = task.optimizer
        self._optimizer, self._context, self._controller = optimizer, context, controller
        self._clip, self._agree = clip, agree
        self._schedule, self._scaler = task.schedule, task.scaler
        self._decay, self._max_norm = context.training.weight_decay, context.training.gradient_clip
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]
        """Those of the optimizer's groups, without the run's schedule."""
        if self._decay is not None:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.0  # `_shrink` replaces it

    def __call__(self) -> None:
        groups = self._optimizer.param_groups  # read each time: loading a checkpoint replaces them
        if self._controller.rate_varies:
            factor = self._controller.rate_factor()
            for group, rate in zip(groups, self.rates, strict=True):
                group["lr"] = rate * factor
        if self._scaler is None:
            self._prepare()
            self._optimizer.step()
        else:
            finite = self._scaler.unscale(self._optimizer, self._agree)
            if finite:
                self._prepare()
            self._scaler.finish(self._optimizer, finite=finite)
            if not finite:
                self._scaler.report(self._context, self._controller.step + 1)
        if self._schedule is not None:
            self._schedule.follow(self._controller.step + 1 - (self._scaler.skipped if self._scaler else 0))

    def _prepare(self) -> None:
        """Clip the gradients, and let the weights decay."""
        if self._max_norm is not None:
            groups = self._optimizer.param_groups
            self._clip([parameter for group in groups for parameter in group["params"]], self._max_norm)
        if self._decay:
            self._shrink(self._decay)

    @torch.no_grad()
    def _shrink(self, decay: float) -> None:
        """Apply decoupled weight decay as AdamW does, with any optimizer (Loshchilov and Hutter 2019)."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * decay)


def _in_turns(turns: list[tuple[Task, Callable[[], object]]], accumulate: Accumulate) -> Callable[[Any], Any]:
    """Return a step in which each optimizer in turn gets the gradients of its own pass, and moves its parameters."""
    unchecked = list(turns)

    def step(batch: Any) -> Any:  # noqa: ANN401 (as `accumulate`)
        found = []
        for turn, update in turns:
            # Another optimizer's pass has left gradients here. Not `model.zero_grad`: after a validation, the model of
            # FSDP has its gathered parameters in the place of the shards.
            for other, _ in turns:
                other.optimizer.zero_grad()
            found.append(accumulate(turn, batch))
            if unchecked:
                check_used(turn)
            update()
        unchecked.clear()
        return merge_turns(found)

    return step


def learning_rate(optimizer: torch.optim.Optimizer) -> float:
    """Return the first parameter group's learning rate."""
    return float(optimizer.param_groups[0]["lr"])


def merge(found: Sequence[Pass]) -> Pass:
    """Return the mean values over the passes of a step, and the sum of their weights."""
    if len(found) == 1:
        return found[0]
    total: Any = sum(weight for _, weight in found)
    return torch.stack([values * weight for values, weight in found]).sum(0) / total, total


@torch.no_grad()
def scale_gradients(optimizer: torch.optim.Optimizer, factor: Tensor) -> None:
    """Multiply all gradients by a number; those of sharded parameters in place of their shards."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                gradient = own_part(parameter.grad)
                gradient.mul_(factor.to(gradient.device, gradient.dtype))


def passes(task: Task, model: Callable[..., Any], micro_batches: list[MicroBatch]) -> Tensor:
    """Make all passes of one optimizer step in one process. Return the mean loss over the batch, detached.

    With a step of the recipe's own, it is followed by the step's metrics: shape (1 + metrics).
    """
    if len(micro_batches) == 1:
        values, weight = task.backward(task, model, micro_batches[0], 1.0)
    else:
        values, weight = merge([task.backward(task, model, batch, batch.share) for batch in micro_batches])
    if isinstance(weight, torch.Tensor):
        scale_gradients(task.optimizer, 1 / weight)
    return values


def own_passes(task: Task, micro_batches: list[MicroBatch]) -> Tensor:
    """Make all passes of one optimizer step in one process, with the task's own forward pass; see `passes`."""
    return passes(task, task.forward, micro_batches)


def train_task(
    task: Task,
    context: Context,
    accumulate: Accumulate = own_passes,
    *,
    ranks: Ranks | None = None,
    saver: StateSaver | None = None,
    validation: Callable[[TrainingController, MetricsReporter], Validation] | None = None,
    clip: Clip = clip_grad_norm_,
    agree: Agree | None = None,
    batches: Callable[[int, int], Iterable[Any]] | None = None,
    begun: Callable[[int], object] | None = None,
    times: StepTimes | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `accumulate` makes the passes of a step. With several `ranks`, it returns the loss and this rank's share. `saver`:
    by default one of a whole model. `validation`: makes the validation, by default of the whole set here. `clip`,
    `agree`: see `stepper`. `batches(epoch, skip)` yields what `accumulate` gets, without the first `skip` of the epoch;
    by default the task's data. `begun`: called with the steps done, once a checkpoint is restored. `times`: by default
    of passes in one process.
    """
    times = times or StepTimes(context, task)
    reporter = MetricsReporter(
        context, ranks=ranks, names=lambda: task.value_names, fetch=_fetch, metrics=task.training_metrics, times=times
    )
    controller = TrainingController(context, reporter, saver or Saver(task, context), **size_of(task.train, task.val))
    step = stepper(task, context, controller, accumulate, times, clip=clip, agree=agree)
    if context.spec.finds_nan:
        step = NumberWatch(task, controller).watched(step)
    checks = validation(controller, reporter) if validation else Validation(task, task.module, controller)
    task.module.train()
    controller.begin(learning_rate(task.optimizer))
    if begun is not None:
        begun(controller.step)
    given = batches or task.train.shuffled
    controller.run(
        lambda epoch, skip: map(step, given(epoch, skip)),
        checks.means,
        rate=lambda: learning_rate(task.optimizer),
        record=None if ranks is None else lambda found: controller.after_step(*found),
    )


def _fetch(losses: list[Tensor]) -> list[float]:
    values: list[float] = torch.stack(losses).float().flatten().tolist()
    return values


POLL_EVERY_S = 1.0
"""Seconds between two polls for a request during a validation: each poll makes all ranks wait for the slowest."""


class Validation:
    """Sums over a validation set: its means are weighted by batch size, and ranks can be added up."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        controller: TrainingController,
        *,
        before: Callable[[nn.Module], object] | None = None,
        poll: EndRequestPoll | None = None,
        batches: Callable[[], Iterator[Own]] | None = None,
    ) -> None:
        """`before`: called with the model before it is validated.

        `poll`: where a forward pass takes all ranks: each takes part in every batch, and all end after the same one.
        `batches`: measures batch by batch, instead of the model.
        """
        self._task, self._model, self._controller = task, model, controller
        self._before, self._poll, self._batches = before, poll, batches or self._own_batches

    def means(self) -> Values | None:
        """Return the means by Keras' names, equal on every rank. Empty without a validation set, or if cut short.

        None where ranks do not wait for each other's sums: the controller computes the means later.
        """
        if self._task.val is None:
            return {}
        sums = self.sums().tolist()
        return self._controller.finish_validation(sums, means_by_name(self._names))

    @property
    def _names(self) -> Sequence[str]:
        reader = self._task.validation_step
        if reader is None:
            return ["loss", *self._task.metrics]
        assert reader.names is not None, "no batch was measured"
        return reader.names

    @torch.no_grad()
    def sums(self) -> Tensor:
        """Return this rank's sums of loss and metrics, the number of items, and 1 if the validation was cut short.

        Shape (1 + metrics + 2), on the device.
        """
        assert self._task.val is not None
        tally, cut = Tally(), 0.0
        ends = self._controller.cuts_validation
        if self._before is not None:
            self._before(self._model)
        if self._poll is not None:
            self._poll.begin()
            ends = self._poll.ends
        self._model.eval()
        for own in self._batches():
            if own is not None:
                tally.add(*own)
            if ends():
                cut = 1.0
                self._controller.synchronises = True  # all ranks end here
            if cut or self._controller.probes:
                break
        self._model.train()
        return tally.sums(len(self._names), self._task.val.device, cut)

    def _own_batches(self) -> Iterator[Own]:
        """Measure this rank's slice of each batch with the model."""
        task = self._task
        assert task.val is not None
        for step, (batch,) in enumerate(task.val.in_order()):
            # Without an item, too, where other ranks wait for this one. A step's names are known once it was called.
            is_named = task.validation_step is None or task.validation_step.names is not None
            needed = batch.share or self._poll is not None or not is_named
            own = self._weigh(batch, batch.share * task.val.size(step)) if needed else None
            yield own if batch.share else None

    def _weigh(self, batch: MicroBatch, items: float) -> Own:
        """Return what a batch of so many items counts, and the means over it."""
        task, reader, autocast = self._task, self._task.validation_step, self._task.autocast or contextlib.nullcontext()
        if reader is None:
            with autocast:
                output = self._model(*batch.inputs)
            return items, losses_and_metrics(task, output, batch.target)
        with autocast:
            measured = reader.read(self._model(batch.data))
        return items if measured.weight is None else measured.weight, measured.values.reshape(-1).unbind()


def losses_and_metrics(task: Task, output: Any, target: Tensor) -> list[Tensor]:  # noqa: ANN401 (whatever the model gives)
    """Return loss and metrics of a model's output, each the mean over the batch."""
    with task.autocast or contextlib.nullcontext():
        loss = task.loss(output, target)
    return [loss, *(_scalar(metric(output, target), loss.device) for metric in task.metrics.values())]


def _scalar(value: Any, device: torch.device) -> Tensor:  # noqa: ANN401 (a number or a tensor, depending on the metric)
    is_there = isinstance(value, torch.Tensor) and value.device == device
    return value if is_there else torch.as_tensor(value, device=device)


class Tally:
    """Sums of per-batch means, weighted by batch size, on their device.

    Batches are added up `AT_ONCE` at a time, since each operation on a scalar costs microseconds. The number is fixed,
    so that equal measurements have equal sums to the last bit.
    """

    AT_ONCE = 64

    def __init__(self) -> None:
        self._items: list[float | Tensor] = []
        self._means: list[Tensor] = []
        self._sums: Tensor | float = 0.0
        self._count = 0.0

    def add(self, items: float | Tensor, means: Sequence[Tensor]) -> None:
        """Add the means over a batch of `items` items, each a scalar. `items` may be a weight on the device."""
        self._items.append(items)
        self._means.append(torch.stack([mean.float() for mean in means]))
        if len(self._items) == self.AT_ONCE:
            self._add_up()

    def sums(self, size: int, device: torch.device, cut: float) -> Tensor:
        """Return the sums of all `size` means, the number of items, and `cut`: float64, shape (size + 2)."""
        self._add_up()
        ends = torch.tensor([self._count, cut], dtype=torch.float64, device=device)
        return torch.cat([torch.zeros(size, dtype=torch.float64, device=device) + self._sums, ends])

    def _add_up(self) -> None:
        if self._items:
            means = torch.stack(self._means).double()
            if isinstance(self._items[0], torch.Tensor):
                weights = torch.stack([torch.as_tensor(each) for each in self._items]).double().to(means.device)
                self._count += float(weights.sum())
            else:
                weights = torch.tensor(self._items, dtype=torch.float64)
                weights = weights.to(means.device, non_blocking=True)  # without waiting for the GPU
                self._count += float(sum(self._items))
            self._sums = self._sums + (weights[:, None] * means).sum(0)
            self._items, self._means = [], []


class EndRequestPoll:
    """Polls for a request to end while ranks compute together: all ranks poll after the same batch.

    Rank 0 reads the requests about once a second, and decides after how many batches to poll again.
    """

    def __init__(self, context: Context, reporter: MetricsReporter) -> None:
        self._context, self._reporter = context, reporter
        self._interval = self._left = 1
        self._polled = time.monotonic()

    def begin(self) -> None:
        """Start a new series of batches. The interval is kept, so a series shorter than it costs no poll at all."""
        self._left = self._interval
        self._polled = time.monotonic()

    def ends(self) -> bool:
        """Return whether to end here. Every rank must call this after each batch."""
        self._left -= 1
        if self._left:
            return False
        decision = 0  # to end; else the batches until the next poll, at most twice as many as before
        if self._context.rank == 0 and not self._context.end_requested():
            elapsed = max(time.monotonic() - self._polled, 1e-6)
            decision = max(1, min(int(self._interval / elapsed * POLL_EVERY_S), 2 * self._interval))
        decision = round(self._reporter.broadcast(decision))
        self._interval = self._left = max(1, decision)
        self._polled = time.monotonic()
        return decision == 0
