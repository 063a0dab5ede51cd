"""What the TensorFlow strategies share: the loop over epochs, steps and validations, and the reports of the losses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ..context import REPORT_EVERY_S
from ..controller import TrainingController
from ..metrics_reporter import MetricsReporter, RankedMetricsReporter
from ._build import build
from ._saver import Saver
from ._step import Passes, Update, slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..context import Context
    from ..controller import Values
    from ..recipe import LoadedRecipe
    from ._build import Task
    from ._data import Feed

ADDED_AT_ONCE = 64  # sums of batches of a validation: each operation on so little costs microseconds


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """The rate of the next step, in the few digits that it was given with: TensorFlow keeps seven."""
    return float(str(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def one_by_one(function: Callable[..., tf.Tensor], feeds: Iterable[Feed]) -> Iterator[tf.Tensor]:
    """What the function makes of each feed, when it is asked for."""
    return (function(*feed) for feed in feeds)


def loop(
    task: Task,
    context: Context,
    reporter: MetricsReporter,
    step: Callable[..., tf.Tensor],
    measure: Callable[..., tf.Tensor],
    *,
    each: Callable[[Callable[..., tf.Tensor], Iterable[Feed]], Iterator[tf.Tensor]] = one_by_one,
    saver: Saver | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for.

    `step(*feed)`: one optimizer step on a global batch; its loss, left on its device.
    `measure(*feed)`: the sums of loss, metrics and items over a batch of the validation set.
    """
    controller = TrainingController(context, reporter, saver or Saver(task.model, task.optimizer, context), **task.size)
    set_rate = rate_setter(task.optimizer, controller)
    controller.begin(learning_rate(task.optimizer))
    rate = rate_reader(task.optimizer)
    set_rate()
    for epoch in controller.epochs():
        for loss in each(step, task.train.shuffled(epoch, skip=controller.done_in_epoch)):
            if controller.after_step(loss):
                return
            set_rate()

        controller.after_epoch_steps(rate())
        means = validate(task, context, controller, each(measure, task.val.in_order())) if task.val is not None else {}
        if controller.after_epoch(means):
            return
    controller.finish()


def validate(task: Task, context: Context, controller: TrainingController, sums: Iterable[tf.Tensor]) -> Values | None:
    """The means by Keras' names from the sums over each batch; nothing when a request cut them short."""
    parts, cut = [tf.zeros(len(task.metrics) + 2, tf.float64)], False
    due = time.monotonic() + REPORT_EVERY_S
    for each in sums:
        parts.append(each)
        if len(parts) == ADDED_AT_ONCE:
            parts = [tf.add_n(parts)]
        if time.monotonic() >= due:
            due = time.monotonic() + REPORT_EVERY_S
            cut = (
                controller.synchronises and context.end_requested()
            )  # else the end of the epoch is told later, and it is whole
            if cut:
                break

    def means(added_up: Sequence[float]) -> Values:
        *totals, items, cuts = added_up
        if cuts:  # on any worker: all hear the same, so all end here
            return {}
        names = ["val_loss", *(f"val_{name}" for name in task.metrics)]
        return {name: [value / items] for name, value in zip(names, totals, strict=True)}

    return controller.finish_validation([*tf.add_n(parts).numpy().tolist(), float(cut)], means)


def rate_reader(optimizer: keras.optimizers.Optimizer) -> Callable[[], float]:
    """Tells the rate where it is no schedule of the run's own that changes it, from the state the optimizer has now on.

    A plain variable of an optimizer of Keras' own is read once: a recipe has no callback that could change it, and on
    a parameter server each reading is a message to another process and back, half a step for a small model.
    """
    of_keras = type(optimizer).__module__.startswith("keras.")
    if not of_keras or not isinstance(optimizer.learning_rate, keras.Variable):
        return lambda: learning_rate(optimizer)
    constant = learning_rate(optimizer)
    return lambda: constant


def rate_setter(optimizer: keras.optimizers.Optimizer, controller: TrainingController) -> Callable[[], object]:
    """Sets the next step's learning rate; does nothing where it never changes."""
    if not controller.rate_varies:
        return lambda: None
    base = learning_rate(optimizer)

    def assign() -> None:
        optimizer.learning_rate.assign(base * controller.rate_factor())

    return assign


class Reporter(MetricsReporter):
    """Gathers the losses of one process."""

    def _fetch(self, losses: list[tf.Tensor]) -> list[float]:
        return fetch(losses)


class RankedReporter(RankedMetricsReporter):
    """Gathers the losses of all workers, which have weighted their parts: these add up to the global batch's."""

    def __init__(self, context: Context, add_up: Callable[[list[float]], list[float]]) -> None:
        """`add_up`: the sums of numbers over all workers."""
        super().__init__(context)
        self._add_up = add_up

    def reports_often_in(self, steps: int) -> bool:  # noqa: ARG002 (however many)
        """Their workers wait for each other within every step, at the gradients: none could run ahead."""
        return True

    def _wait_for(self, losses: list[tf.Tensor]) -> None:
        if losses:
            losses[-1].numpy()

    def _reduce(self, losses: list[tf.Tensor], shares: list[float], numbers: list[float]) -> list[float]:
        assert all(share == 1 for share in shares), "these losses are weighted already"
        return self._add_up([*(fetch(losses) if losses else []), *numbers])


def fetch(losses: list[tf.Tensor]) -> list[float]:
    """The losses as numbers, in one transfer."""
    values: list[float] = tf.stack(losses).numpy().tolist()
    return values


def train_replicas(
    strategy: tf.distribute.Strategy, recipe: LoadedRecipe, context: Context, reporter: MetricsReporter
) -> None:
    """Train with a replica of the model on each of the strategy's devices."""
    task = build(recipe, context, scope=strategy.scope())
    passes, update = Passes(task, context), Update(task, context)

    def train_on(feed: Feed, share: float) -> tf.Tensor:
        loss, gradients = passes.gradients(feed, share)
        update(gradients)
        return loss

    def step(*feed: tf.Tensor) -> tf.Tensor:
        return _over_replicas(strategy, train_on, feed)

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return _over_replicas(strategy, passes.sums, feed)

    loop(task, context, reporter, tf.function(step), tf.function(measure))


def _over_replicas(strategy: tf.distribute.Strategy, compute: Callable[[Feed, float], Any], feed: Feed) -> tf.Tensor:
    """Let each of this process's replicas compute on its own slice, and add up."""

    def replica() -> Any:  # noqa: ANN401 (tensors)
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return compute(*slice_of(feed, int(number), strategy.num_replicas_in_sync))

    return tf.add_n(strategy.experimental_local_results(strategy.run(replica)))
