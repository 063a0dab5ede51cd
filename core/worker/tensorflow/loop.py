"""What the TensorFlow strategies share: the training of a task, its validations, and the functions of its steps."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ..steps import other_names
from ..training.controller import TrainingController, size_of
from ..training.metrics import means_by_name
from ..training.metrics_reporter import MetricsReporter
from .step import WholeStep
from .task.build import build
from .task.data import slice_of
from .task.saver import Saver
from .task.step_times import StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ..training.metrics import Values
    from ..training.metrics_reporter import Ranks
    from .step import Gradient
    from .task.build import Task
    from .task.data import Batches, Feed
    from .task.steps import StepReader

ADDED_AT_ONCE = 64
"""Batches of a validation whose sums are added at once: each operation on a few numbers costs microseconds."""
NAMES_BYTES = 512
"""Bytes of the names of a step's values that workers compare."""


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Return the rate of the next step in the shortest digits that are equal: TensorFlow keeps seven."""
    return float(str(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def loop(
    task: Task,
    context: Context,
    step: Callable[..., tf.Tensor],
    measure: Callable[..., tf.Tensor],
    *,
    ranks: Ranks | None = None,
    each: Callable[[Callable[..., tf.Tensor], Iterable[Feed]], Iterator[tf.Tensor]] = starmap,
    saver: Saver | None = None,
    first: int = 0,
    parts: int = 1,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `step(*feed)` makes one optimizer step on a global batch and returns its loss, left on its device, or its values in
    the order of `task.value_names`; where metrics are measured, with outputs: see `Update.make`. They are of the slices
    of the batch from `first` on, of `parts`.
    `measure(*feed)` returns the sums of loss, metrics and items over a batch of the validation set.
    `each(function, feeds)` yields the function's result for each feed.
    """
    optimizers = [turn.optimizer for turn in task.turns]
    times = StepTimes(context, task, replicas=parts) if each is starmap else None  # else other processes make steps
    reporter = MetricsReporter(
        context, ranks=ranks, names=lambda: task.value_names, fetch=fetch, metrics=task.training_metrics, times=times,
        after_report=skipped_steps(task, context),
    )
    controller = TrainingController(
        context, reporter, saver or Saver(task.model, optimizers, context), **size_of(task.train, task.val)
    )
    metrics, rates = task.training_metrics, Rates(task, controller)
    make = step if metrics is None else metrics.watching(step, first=first, parts=parts)
    make = make if times is None else times.timed(make, "data")

    def at_rates(*feed: tf.Tensor) -> tf.Tensor:
        rates.set()
        return make(*feed)

    controller.begin(learning_rate(task.optimizer))
    controller.run(
        lambda epoch, skip: each(at_rates if controller.rate_varies else make, task.train.shuffled(epoch, skip=skip)),
        lambda: {} if task.val is None else validate(task, controller, each(measure, task.val.in_order())),
        rate=rates.read,
    )


def skipped_steps(task: Task, context: Context) -> Callable[[int], object] | None:
    """Return a function of the steps done that tells about those of float16 that changed nothing; None without it."""

    def tell(steps: int) -> None:
        for turn in task.turns:
            if turn.skipped_steps is not None:
                turn.skipped_steps.count = steps - int(turn.optimizer.iterations.numpy())
                turn.skipped_steps.report(context, steps, scale=float(turn.optimizer.dynamic_scale.numpy()))

    return None if task.skipped_steps is None else tell


def validate(task: Task, controller: TrainingController, sums: Iterable[tf.Tensor]) -> Values | None:
    """Return the validation's means by Keras' names from the sums over each batch. Empty if a request cut it short.

    None where workers do not wait for each other's sums: the controller computes the means later.
    """
    parts, cut = [], False
    for each in sums:
        parts.append(each)
        if len(parts) == ADDED_AT_ONCE:
            parts = [tf.add_n(parts)]
        if controller.cuts_validation():
            cut = True
        if cut or controller.probes:
            break
    added_up = [*tf.add_n(parts).numpy().tolist(), float(cut)]
    return controller.finish_validation(added_up, means_by_name(task.validation_names))


class Rates:
    """The learning rates of a task's optimizers."""

    def __init__(self, task: Task, controller: TrainingController) -> None:
        self._task, self._controller = task, controller
        self._optimizers = [turn.optimizer for turn in task.turns]
        self._read_bases()
        self._known: float | None = None
        controller.live.apply_rate = self._apply

    def _read_bases(self) -> None:
        """Read the rates without the run's schedule, where there is one."""
        self._bases = [learning_rate(each) for each in self._optimizers if self._controller.rate_varies]

    def set(self) -> None:
        """Set those of the next step, where they differ from step to step."""
        if self._controller.rate_varies:
            for optimizer, base in zip(self._optimizers, self._bases, strict=True):
                optimizer.learning_rate.assign(base * self._controller.rate_factor())

    def read(self) -> float:
        """Return that of the first optimizer.

        The plain variable of a Keras optimizer is read once unless the run has a schedule: a recipe has no callback
        that could change it, and with a parameter server each reading is a round trip to another process, half a step
        for a small model.
        """
        first = self._optimizers[0]
        of_keras = type(first).__module__.startswith("keras.") and isinstance(first.learning_rate, keras.Variable)
        if self._known is None or self._controller.rate_varies or not of_keras:
            self._known = learning_rate(first)
        return self._known

    def _apply(self) -> float:
        """Give all optimizers their rates at the run's learning rate as it is now; see `LiveRequests.apply_rate`."""
        for optimizer, rate in zip(self._optimizers, self._task.rates(), strict=True):
            optimizer.learning_rate.assign(rate)
        self._read_bases()
        self._known = None
        return learning_rate(self._optimizers[0])


def fetch(losses: list[tf.Tensor]) -> list[float]:
    """Return the losses as numbers, in one transfer from the device; with metrics, step by step."""
    values: list[float] = tf.stack(losses).numpy().ravel().tolist()
    return values


def traced(function: Callable[..., tf.Tensor], batches: Batches | None) -> Callable[..., tf.Tensor]:
    """Return a step's function as TensorFlow runs it on the feeds of these batches."""
    return VaryingFunction(function) if batches is not None and batches.varies else tf.function(function)


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


def train_alone(task: Task, context: Context, gradient: Gradient | None = None) -> None:
    """Train a task of one process, each step as a whole. `gradient`: see `Passes`."""
    whole = WholeStep(task, context, gradient)

    def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
        return whole.make(lambda passes: passes.gradients(feed, 1.0))

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return whole.passes.sums(feed, 1.0)

    loop(task, context, traced(step, task.train), traced(measure, task.val))


def train_replicas(
    strategy: tf.distribute.Strategy, recipe: LoadedRecipe, context: Context, ranks: Ranks | None = None
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

    function: Any = traced(step, task.train)
    unsure = list(task.readers) if ranks is not None else []

    def agreed(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
        """Let the workers first compare the names of their step's values: with others they would wait for ever."""
        if unsure and ranks is not None:
            function.get_concrete_function(*feed)
            while unsure:
                _agree_on_names(ranks, context, unsure.pop(0))
        return function(*feed)

    parts = strategy.num_replicas_in_sync
    first = context.rank * (parts // context.world_size)  # of the replicas in this process
    making = agreed if unsure else function
    loop(task, context, making, traced(measure, task.val), ranks=ranks, first=first, parts=parts)


def _agree_on_names(ranks: Ranks, context: Context, reader: StepReader) -> None:
    """Raise `ValueError` on all workers if a step returns other names on one of them. All must call this."""
    own = list("\n".join(reader.signature).encode()[:NAMES_BYTES])
    sent = [0.0] * (NAMES_BYTES * context.world_size)
    sent[context.rank * NAMES_BYTES : context.rank * NAMES_BYTES + len(own)] = map(float, own)
    codes = bytes(map(round, ranks.reduce([], [], sent)))
    of_ranks = [codes[at : at + NAMES_BYTES].rstrip(b"\0") for at in range(0, len(codes), NAMES_BYTES)]
    for rank, found in enumerate(of_ranks):
        if found != of_ranks[0]:
            names, first = (each.decode(errors="replace").splitlines() for each in (found, of_ranks[0]))
            raise other_names(rank, names, first)
    reader.agreed = True


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
