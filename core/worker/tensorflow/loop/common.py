"""What the TensorFlow strategies share: the loop over epochs, steps and validations, and the reports of the losses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...context import REPORT_EVERY_S
from ...steps import other_names
from ...training.controller import TrainingController
from ...training.metric_schedule import Cost
from ...training.metrics_reporter import MetricsReporter, RankedMetricsReporter
from ..task.build import build
from ..task.data import slice_of
from .saver import Saver
from .step import WholeStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from ...context import Context
    from ...recipe import LoadedRecipe
    from ...training.epoch_results import Values
    from ...training.host_files import HostFiles
    from ..task.build import Task
    from ..task.data import Batches, Feed
    from ..task.steps import StepReader
    from ..task.training_metrics import TrainingMetrics

ADDED_AT_ONCE = 64
"""Batches of a validation whose sums are added at once: each operation on a few numbers costs microseconds."""
NAMES_BYTES = 512
"""Bytes of the names of a step's values that workers compare."""


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Return the rate of the next step in the shortest digits that are equal: TensorFlow keeps seven."""
    return float(str(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def one_by_one(function: Callable[..., tf.Tensor], feeds: Iterable[Feed]) -> Iterator[tf.Tensor]:
    """Yield the function's result for each feed, computed on demand."""
    return (function(*feed) for feed in feeds)


def loop(
    task: Task,
    context: Context,
    reporter: Reporter | RankedReporter,
    step: Callable[..., tf.Tensor],
    measure: Callable[..., tf.Tensor],
    *,
    each: Callable[[Callable[..., tf.Tensor], Iterable[Feed]], Iterator[tf.Tensor]] = one_by_one,
    saver: Saver | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `step(*feed)` makes one optimizer step on a global batch and returns its loss, left on its device, or its values in
    the order of `task.value_names`.
    `measure(*feed)` returns the sums of loss, metrics and items over a batch of the validation set.
    `each(function, feeds)` yields the function's result for each feed.
    """
    reporter.task = task
    optimizers = [turn.optimizer for turn in task.turns]
    controller = TrainingController(context, reporter, saver or Saver(task.model, optimizers, context), **task.size)
    set_rate = rate_setter(optimizers, controller)
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
    """Return the validation's means by Keras' names from the sums over each batch. Empty if a request cut it short.

    None where workers do not wait for each other's sums: the controller computes the means later.
    """
    parts, cut = [], False
    due = time.monotonic() + REPORT_EVERY_S
    for each in sums:
        parts.append(each)
        if len(parts) == ADDED_AT_ONCE:
            parts = [tf.add_n(parts)]
        if time.monotonic() >= due:
            due = time.monotonic() + REPORT_EVERY_S
            cut = controller.synchronises and context.end_requested()  # elsewhere the other workers would not know
            if cut:
                break

    def means(added_up: Sequence[float]) -> Values:
        *totals, items, cuts = added_up
        if cuts:  # on any worker: the sum is equal on all, so all end here
            return {}
        return {f"val_{name}": [value / items] for name, value in zip(task.validation_names, totals, strict=True)}

    return controller.finish_validation([*tf.add_n(parts).numpy().tolist(), float(cut)], means)


def rate_reader(optimizer: keras.optimizers.Optimizer) -> Callable[[], float]:
    """Return a function that returns the optimizer's rate, where no schedule of the run changes it.

    The plain variable of a Keras optimizer is read once: a recipe has no callback that could change it, and with a
    parameter server each reading is a round trip to another process, half a step for a small model.
    """
    of_keras = type(optimizer).__module__.startswith("keras.")
    if not of_keras or not isinstance(optimizer.learning_rate, keras.Variable):
        return lambda: learning_rate(optimizer)
    constant = learning_rate(optimizer)
    return lambda: constant


def rate_setter(
    optimizers: Sequence[keras.optimizers.Optimizer], controller: TrainingController
) -> Callable[[], object]:
    """Return a function that sets the next step's learning rates. It does nothing where they never change."""
    if not controller.rate_varies:
        return lambda: None
    bases = [learning_rate(optimizer) for optimizer in optimizers]

    def assign() -> None:
        for optimizer, base in zip(optimizers, bases, strict=True):
            optimizer.learning_rate.assign(base * controller.rate_factor())

    return assign


class _Measuring(MetricsReporter):
    """What the reporters of one process and of many have in common: the names of values, and training metrics."""

    task: Task | None = None
    """What is trained. Set by `loop`."""

    @property
    def names(self) -> Sequence[str]:
        """What each step is reported with."""
        return super().names if self.task is None else self.task.value_names

    @property
    def training_metrics(self) -> TrainingMetrics | None:
        """What measures metrics on training batches; None where they are not measured."""
        return None if self.task is None else self.task.training_metrics

    def step(self, loss: tf.Tensor, share: Any = 1.0) -> int:  # noqa: ANN401 (of the base)
        """Count one step; see `MetricsReporter.step`."""
        metrics = self.training_metrics
        if metrics is None:
            return super().step(loss, share)
        metrics.end_step(self.steps + 1)
        requests = super().step(loss, share)
        metrics.begin_step(self.steps + 1)
        return requests

    def _record(self, values: list[float], sums: Sequence[float]) -> None:
        super()._record(values, sums)
        for turn in self.task.turns if self.task is not None else ():
            if turn.skipped_steps is not None:
                skipped, scale = turn.skipped_steps, float(turn.optimizer.dynamic_scale.numpy())
                skipped.count = self.steps - int(turn.optimizer.iterations.numpy())
                skipped.report(self._context, self.steps, scale=scale)

    def begin_epoch(self) -> None:
        """Measure the next step."""
        if self.training_metrics is not None:
            self.training_metrics.count_from(self.steps + 1)

    def _take_metrics(self, metrics: TrainingMetrics) -> list[float]:
        """Return the metrics that this worker has measured since the last report, and what they took."""
        values, cost = metrics.take(time.monotonic() - self._reported)
        return [*values, *(cost if self._context.rank == 0 else cost._replace(elapsed_us=0.0))]

    def _record_metrics(self, metrics: TrainingMetrics, taken: Sequence[float]) -> None:
        """Record what `_take_metrics` returned, added up over the workers. The losses are recorded after it."""
        values, cost = taken[: -len(Cost._fields)], Cost(*taken[-len(Cost._fields) :])
        if values and self._context.rank == 0:
            columns = {name: values[at :: len(metrics.names)] for at, name in enumerate(metrics.names)}
            for name, column in columns.items():
                self.means.add(name, column)
            metrics.record(columns, self._context, since=self._since, until=self._until)
        metrics.plan(cost, steps=len(self._losses))
        metrics.begin_step(self.steps + 1)  # reports also come between two steps


class Reporter(_Measuring):
    """Reports the losses of one process."""

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """Record what was measured; see `MetricsReporter.report`."""
        if self.training_metrics is not None:
            self._record_metrics(self.training_metrics, self._take_metrics(self.training_metrics))
        return super().report(numbers)

    def _fetch(self, losses: list[tf.Tensor]) -> list[float]:
        return fetch(losses)


class RankedReporter(_Measuring, RankedMetricsReporter):
    """Reports the losses of all workers. Each has weighted its own: they add up to the global batch's loss."""

    def __init__(
        self,
        context: Context,
        add_up: Callable[[list[float]], np.ndarray[Any, Any]],
        files: HostFiles | None = None,
    ) -> None:
        """`add_up`: returns the sums of numbers over all workers. `files`: of a run over several machines."""
        super().__init__(context)
        self._add_up, self._files = add_up, files
        self._takes_metrics = False
        """Whether the next reduction is a report's, which carries the training metrics."""

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """Record what was measured on all workers; see `RankedMetricsReporter.report`."""
        self._takes_metrics = self.training_metrics is not None
        return super().report(numbers)

    def agree_on_names(self, reader: StepReader) -> None:
        """Raise `ValueError` on all workers if a step returns other names on one of them. All must call this."""
        rank, ranks = self._context.rank, self._context.world_size
        own = list("\n".join(reader.signature).encode()[:NAMES_BYTES])
        sent = [0.0] * (NAMES_BYTES * ranks)
        sent[rank * NAMES_BYTES : rank * NAMES_BYTES + len(own)] = map(float, own)
        codes = bytes(map(round, self.sum_over_ranks(sent)))
        of_ranks = [codes[at : at + NAMES_BYTES].rstrip(b"\0") for at in range(0, len(codes), NAMES_BYTES)]
        for rank, found in enumerate(of_ranks):
            if found != of_ranks[0]:
                names, first = (each.decode(errors="replace").splitlines() for each in (found, of_ranks[0]))
                raise other_names(rank, names, first)
        reader.agreed = True

    def reports_often_in(self, steps: int) -> bool:  # noqa: ARG002 (however many)
        """Return True: workers wait for each other's gradients within every step, so none could run ahead."""
        return True

    def _wait_for(self, losses: list[tf.Tensor]) -> None:
        if losses:
            losses[-1].numpy()

    def collect_files(self, folder: Path) -> None:
        """See `MetricsReporter`."""
        if self._files is not None:
            self._files.collect(folder)

    def _added_up(self, numbers: list[float]) -> list[float]:
        sums: list[float] = self._add_up(numbers).tolist()
        return sums

    def _reduce(self, losses: list[tf.Tensor], shares: list[float], numbers: list[float]) -> list[float]:
        assert all(share == 1 for share in shares), "these losses are weighted already"
        metrics = self.training_metrics if self._takes_metrics else None
        self._takes_metrics = False
        sent = [*(fetch(losses) if losses else []), *numbers]
        if metrics is None:
            return self._added_up(sent)
        sums = self._added_up([*sent, *self._take_metrics(metrics)])
        self._record_metrics(metrics, sums[len(sent) :])
        return sums[: len(sent)]


def fetch(losses: list[tf.Tensor]) -> list[float]:
    """Return the losses as numbers, in one transfer from the device; with metrics, step by step."""
    values: list[float] = tf.stack(losses).numpy().ravel().tolist()
    return values


def traced(function: Callable[..., tf.Tensor], batches: Batches | None) -> Callable[..., tf.Tensor]:
    """Return a step's function as TensorFlow runs it on the feeds of these batches."""
    return VaryingFunction(function) if batches is not None and batches.varies else tf.function(function)


def train_step(
    task: Task,
    step: Callable[..., Any],
    *,
    first: int = 0,
    parts: int = 1,
    before_first: Callable[[Any, Feed], None] | None = None,
) -> Callable[..., tf.Tensor]:
    """Return the function of a feed that makes a step and returns its values, from what `Update.make` returned.

    This process computes the slices of a global batch from `first` on, of `parts`. `before_first`: called once before
    the first step, with the traced function and the feed.
    """
    function = traced(step, task.train)
    if before_first is not None:
        function = _preceded(function, before_first)
    if task.training_metrics is not None:
        function = task.training_metrics.watching(function, first=first, parts=parts)
    return function


def _preceded(function: Callable[..., Any], before: Callable[[Any, Feed], None]) -> Callable[..., Any]:
    is_first = True

    def preceded(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (what the function returns)
        nonlocal is_first
        if is_first:
            before(function, feed)
            is_first = False
        return function(*feed)

    return preceded


class VaryingFunction:
    """A function of feeds with tensors of any length, traced once for each number of items.

    A `tf.function` would be traced for each new length. If it is to accept any length, it accepts any number of items,
    too, but a feed is cut for the devices by a number that is known when the function is traced.
    """

    def __init__(self, function: Callable[..., tf.Tensor]) -> None:
        self._function = function
        self._sizes: list[list[int | None]] = []
        """The dimensions of each tensor after the first; None for one that has varied."""
        self._by_items: dict[int, Any] = {}

    def __call__(self, *feed: tf.Tensor) -> tf.Tensor:
        """Return the function's result."""
        return self._for(feed)(*feed)

    def get_concrete_function(self, *feed: tf.Tensor) -> object:
        """Trace the function for such a feed, without running it."""
        return self._for(feed).get_concrete_function()

    def _for(self, feed: Feed) -> Any:  # noqa: ANN401 (a `tf.function`)
        shapes = [tuple(each.shape) for each in feed]
        if not self._sizes:
            self._sizes = [list(shape[1:]) for shape in shapes]
        for known, shape in zip(self._sizes, shapes, strict=True):
            for at, size in enumerate(shape[1:]):
                if known[at] is not None and known[at] != size:
                    known[at] = None
                    self._by_items.clear()
        items = shapes[0][0]
        if items not in self._by_items:
            pairs = zip(self._sizes, feed, strict=True)
            specs = [tf.TensorSpec([items, *known], each.dtype) for known, each in pairs]
            self._by_items[items] = tf.function(self._function, input_signature=specs)
        return self._by_items[items]


def train_replicas(
    strategy: tf.distribute.Strategy, recipe: LoadedRecipe, context: Context, reporter: Reporter | RankedReporter
) -> None:
    """Train with a replica of the model on each device of a strategy of `tf.distribute`."""
    task = build(recipe, context, scope=strategy.scope())
    whole = WholeStep(task, context)

    def train_on(feed: Feed, share: float) -> Any:  # noqa: ANN401 (see `Update.make`)
        return whole.make(lambda passes: passes.gradients(feed, share))

    def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (likewise)
        return over_replicas(strategy, train_on, feed)

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return over_replicas(strategy, whole.passes.sums, feed)

    def agree(step: Any, feed: Feed) -> None:  # noqa: ANN401 (a traced function)
        """Let the workers compare the names of their step's values: with others they would wait for ever."""
        if task.readers and isinstance(reporter, RankedReporter):
            step.get_concrete_function(*feed)
            for reader in task.readers:
                reporter.agree_on_names(reader)

    parts = strategy.num_replicas_in_sync
    first = context.rank * (parts // context.world_size)  # of the replicas in this process
    function = train_step(task, step, first=first, parts=parts, before_first=agree)
    loop(task, context, reporter, function, traced(measure, task.val))


def over_replicas(strategy: tf.distribute.Strategy, compute: Callable[[Feed, float], Any], feed: Feed) -> Any:  # noqa: ANN401 (tensors)
    """Let each of this process's replicas compute on its own slice. Return the sum of their results, and any outputs.

    The outputs are those of the replicas in their order.
    """

    def replica() -> Any:  # noqa: ANN401 (tensors)
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return compute(*slice_of(feed, int(number), strategy.num_replicas_in_sync))

    results = strategy.run(replica)
    if not isinstance(results, tuple):
        return tf.add_n(strategy.experimental_local_results(results))
    values, (output,) = results
    return tf.add_n(strategy.experimental_local_results(values)), of_replicas(strategy, output)


def of_replicas(strategy: tf.distribute.Strategy, result: Any) -> tuple[Any, ...]:  # noqa: ANN401 (in whatever structure)
    """Return what `strategy.run` returned, replica by replica: of those in this process, in their order."""
    parts = [strategy.experimental_local_results(each) for each in tf.nest.flatten(result)]
    return tuple(tf.nest.pack_sequence_as(result, each) for each in zip(*parts, strict=True))
