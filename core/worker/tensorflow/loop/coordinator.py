"""The parts of parameter server training: the cluster's description, its servers, scheduled steps, checkpoints."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ..task.data import gather
from .devices import HOST
from .saver import Saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import keras
    from tensorflow.distribute.coordinator import ClusterCoordinator

    from ....schema.rank import RankAssignment
    from ...context import Context
    from ..task.data import Batches, Feed

AHEAD = 4
"""Batches per worker that are scheduled: no worker waits for the chief, and a stop waits for few."""


def cluster_of(assignment: RankAssignment) -> str:
    """Return `TF_CONFIG`. The first address is the chief's, the last the parameter server's."""
    chief, *workers, server = assignment.addresses
    index = assignment.rank - 1 if assignment.role == "worker" else 0
    return json.dumps({
        "cluster": {"chief": [chief], "worker": workers, "ps": [server]},
        "task": {"type": assignment.role, "index": index},
    })  # fmt: skip


def workers_of(assignment: RankAssignment) -> int:
    """Return how many workers the chief has, on all machines."""
    _, *workers, _ = assignment.addresses
    return len(workers)


def serve(assignment: RankAssignment) -> None:
    """Compute or keep variables for the chief. Never returns: the supervisor ends servers after the other workers."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    # An operation that waits for another process occupies a thread, and so does the operation it waits for.
    # With a thread per core, servers of one core would wait for each other for ever.
    threads = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=len(assignment.cores),
        inter_op_parallelism_threads=len(assignment.cores) + len(assignment.addresses),
        gpu_options=tf.compat.v1.GPUOptions(allow_growth=True),  # a server ignores the setting of `claim`
    )
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc",
        config=threads,
    )  # fmt: skip
    server.join()


class Workers:
    """Schedules batches on free workers."""

    def __init__(self, strategy: tf.distribute.Strategy, coordinator: ClusterCoordinator, workers: int) -> None:
        self._strategy, self._coordinator, self._workers = strategy, coordinator, workers

    def computing(self, compute: Callable[[Feed], tf.Tensor], batches: Batches) -> Callable[..., Any]:
        """Return a function of a feed that a worker runs, from `compute(tensors)`. `each` waits for its results.

        Arrays are sent to each worker once. Afterwards only the indices of a batch are sent.
        """
        arrays = batches.arrays or (tf.zeros([]),)
        sent = self._coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensors(arrays).repeat())
        iterator = iter(sent)

        def on_worker(iterator: Any, *feed: tf.Tensor) -> tf.Tensor:  # noqa: ANN401 (the worker's own)
            with tf.device(HOST):  # else all arrays would be copied to the GPU for each batch
                everything = next(iterator)
                tensors = gather(everything, feed) if batches.arrays else feed
            return self._strategy.run(compute, args=(tensors,))

        function = tf.function(on_worker)
        return lambda *feed: self._coordinator.schedule(function, args=(iterator, *feed))

    def each(self, function: Callable[..., Any], feeds: Iterable[Feed]) -> Iterator[tf.Tensor]:
        """Yield the results in the order of the feeds. Some are always scheduled ahead."""
        pending: deque[Any] = deque()
        max_pending = AHEAD * self._workers
        for feed in feeds:
            pending.append(function(*feed))
            if len(pending) > max_pending:
                yield pending.popleft().fetch()
        while pending:
            yield pending.popleft().fetch()


class CoordinatedSaver(Saver):
    """Waits for the scheduled steps, so that all variables are of the same moment.

    Those steps are in the weights, but not counted yet: a resumed run repeats those few.
    """

    def __init__(
        self,
        coordinator: ClusterCoordinator,
        model: keras.Model,
        optimizers: Sequence[keras.optimizers.Optimizer],
        context: Context,
    ) -> None:
        super().__init__(model, optimizers, context)
        self._coordinator = coordinator

    def save(self, folder: Path) -> None:
        """Write the variables, fetched from the parameter server."""
        self._coordinator.join()
        super().save(folder)
