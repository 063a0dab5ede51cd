"""The strategies, each a function of the recipe and the run, and what the processes of a cluster do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ...language import tr
from ..context import LINK_BYTES
from ..training.checkpoints import HostFiles
from .devices import claim, mirrored_strategy, placed_model, record_parts, record_shared
from .loop import fetch, loop, traced, train_alone, train_replicas
from .step import WholeStep, added_up
from .task.build import build
from .task.data import HOST, gather, slice_of
from .task.saver import Saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tensorflow.distribute.coordinator import ClusterCoordinator

    from ...schema.spec import RankAssignment
    from ..context import Context
    from ..recipe import LoadedRecipe
    from .step import Forward, Passed
    from .task.data import Batches, Feed


NAP_S = 0.2


def single(recipe: LoadedRecipe, context: Context) -> None:
    """Train on one device."""
    (device,) = claim(context)
    with tf.device(device):
        train_alone(build(recipe, context), context)


def mirrored(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel: MirroredStrategy keeps a copy of the model on each device."""
    train_replicas(mirrored_strategy(context), recipe, context)


def central_storage(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel: the variables are on one device, all devices compute."""
    devices = claim(context)
    # On the host, the strategy's own choice for several GPUs. A single device keeps its variables.
    storage = devices[0] if len(devices) == 1 else HOST
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=storage)
    train_replicas(strategy, recipe, context)


def tpu(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel on all cores of a TPU. Raises `RuntimeError` without one."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise RuntimeError(
            tr("TensorFlow found no TPU on this machine: {error}. Choose another strategy.", error=error)
        ) from error
    train_replicas(tf.distribute.TPUStrategy(resolver), recipe, context)


def towers(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel without `tf.distribute`: one tower per device, all on one set of variables."""
    devices = claim(context)
    with tf.device(devices[0]):  # the variables are here; the other towers read them each step
        task = build(recipe, context)
    record_shared(context, task.model, devices[0])
    whole = WholeStep(task, context)

    def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
        with tf.device(devices[0]):
            return whole.make(lambda passes: added_up(_towers(devices, passes.gradients, feed)))

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return tf.add_n(_towers(devices, whole.passes.sums, feed))

    loop(task, context, traced(step, task.train), traced(measure, task.val), parts=len(devices))


def _towers(devices: Sequence[str], compute: Callable[[Feed, float], Any], feed: Feed) -> list[Any]:
    """Return what each device computes on its slice of the global batch."""
    results = []
    for number, device in enumerate(devices):
        with tf.device(device):
            results.append(compute(*slice_of(feed, number, len(devices))))
    return results


def placement(recipe: LoadedRecipe, context: Context) -> None:
    """Train a model whose parts are on the devices that the recipe names, or in order on all."""
    devices = claim(context)
    with tf.device(devices[0]):  # for everything that is not placed
        task = build(recipe, context, make_model=partial(placed_model, recipe, context, devices))
        record_parts(context, task.model, devices)
        train_alone(task, context, where_it_was_computed)


def where_it_was_computed(forward: Forward, variables: list[tf.Variable]) -> tuple[Passed, list[tf.Tensor | None]]:
    """Compute each gradient on the device of its forward operation. A tape would use the first device for all."""
    passed, scaled = forward()
    return passed, tf.gradients(scaled, variables)


AHEAD = 4
"""Batches per worker that are scheduled: no worker waits for the chief, and a stop waits for few."""
WORD = np.dtype(np.int64)
"""Bytes travel as whole numbers, whose sum with zeros is exact."""


def multi_worker_mirrored(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel with one process per device: MultiWorkerMirroredStrategy, joined through TF_CONFIG."""
    claim(context)
    _describe({"worker": list(context.assignment.addresses)}, "worker", context.rank)
    context.enter_phase("join")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = None
    if context.assignment.meeting:
        add_up = _adder(strategy, tf.float32)
        context.check_link(
            "grpc" if context.assignment.kind == "cpu" else "auto",  # on GPUs TensorFlow decides
            lambda: np.ones(LINK_BYTES // 4, np.float32),
            lambda ones: bool((add_up(ones) == context.world_size).all()),
        )
        files = HostFiles(context, _broadcaster(strategy, context.rank))
        files.fetch_checkpoint()
    train_replicas(strategy, recipe, context, Ranks(_adder(strategy, tf.float64), files))


class Ranks:
    """The workers, each of which has weighted its losses: they add up to the global batch's; see `metrics_reporter`."""

    in_step = True

    def __init__(self, add_up: Callable[[list[float]], np.ndarray[Any, Any]], files: HostFiles | None) -> None:
        """`add_up`: returns the sums of numbers over all workers. `files`: of a run over several machines."""
        self._add_up, self._files = add_up, files

    def wait_for(self, losses: list[tf.Tensor]) -> None:
        """Wait until the losses are computed."""
        if losses:
            losses[-1].numpy()

    def reduce(self, losses: list[tf.Tensor], shares: list[float], numbers: list[float]) -> list[float]:
        """Return the sums of all losses and numbers over the workers."""
        assert all(share == 1 for share in shares), "these losses are weighted already"
        sums: list[float] = self._add_up([*(fetch(losses) if losses else []), *numbers]).tolist()
        return sums

    def collect_files(self, folder: Path) -> None:
        """Bring files to the machine of rank 0."""
        if self._files is not None:
            self._files.collect(folder)


def _adder(strategy: tf.distribute.Strategy, dtype: tf.DType) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Return a function that returns the sums of plain numbers over all workers."""

    def over_all(numbers: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

    add_up = tf.function(
        lambda numbers: strategy.run(over_all, args=(numbers,)), input_signature=[tf.TensorSpec([None], dtype)]
    )
    return lambda numbers: np.asarray(add_up(tf.constant(numbers, dtype)).numpy())


def _broadcaster(strategy: tf.distribute.Strategy, rank: int) -> Callable[[int, bytes], bytes]:
    """Return a function that returns on all workers the bytes that one of them gives. `rank`: that of this one."""
    add_up = _adder(strategy, tf.int64)

    def broadcast(sender: int, data: bytes) -> bytes:
        size = int(add_up([len(data) if rank == sender else 0])[0])
        if not size:
            return b""
        words = np.zeros(-(-size // WORD.itemsize), WORD)
        if rank == sender:
            words.view(np.uint8)[:size] = np.frombuffer(data, np.uint8)
        return add_up(words).tobytes()[:size]

    return broadcast


def parameter_server(recipe: LoadedRecipe, context: Context) -> None:
    """Train asynchronously: each worker takes the next batch and updates the server's variables by itself.

    The chief trains; any other process serves it.
    """
    claim(context)
    assignment = context.assignment
    chief, *workers, server = assignment.addresses
    index = assignment.rank - 1 if assignment.role == "worker" else 0
    _describe({"chief": [chief], "worker": workers, "ps": [server]}, assignment.role, index)
    if assignment.role == "chief":
        _coordinate(recipe, context)
    else:
        serve(assignment)


def _describe(cluster: dict[str, list[str]], role: str, index: int) -> None:
    """Set `TF_CONFIG`, by which each process of a cluster finds the others: their addresses by role."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def _coordinate(recipe: LoadedRecipe, context: Context) -> None:
    context.notice(
        tr(
            "Parameter server training is asynchronous: each step starts from weights that other steps are changing. "
            "The curve differs from that of one device, and from run to run."
        )
    )
    context.enter_phase("join")
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    task = build(recipe, context, scope=strategy.scope())
    whole = WholeStep(task, context)

    def train_on(tensors: Feed) -> tf.Tensor:
        return whole.make(lambda passes: passes.gradients_of(tensors, 1.0))

    def measure_on(tensors: Feed) -> tf.Tensor:
        return whole.passes.sums_of(tensors, 1.0)

    step = _scheduled(strategy, coordinator, train_on, task.train)
    measure = _scheduled(strategy, coordinator, measure_on, task.val) if task.val is not None else step
    workers = len(context.assignment.addresses) - 2  # without chief and server
    # All scheduled steps are waited for, so that all variables are of the same moment. Those steps are in the weights,
    # but not counted yet: a resumed run repeats those few.
    optimizers = [turn.optimizer for turn in task.turns]
    saver = Saver(task.model, optimizers, context, before=coordinator.join)
    loop(task, context, step, measure, each=partial(_in_order, ahead=AHEAD * workers), saver=saver)


def serve(assignment: RankAssignment) -> None:
    """Compute or keep variables for the chief. Never returns: the supervisor ends servers after the other workers."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the end of this process is recorded, too
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
    )
    while server:  # in `server.join`, Python would handle no signal
        time.sleep(NAP_S)


def _scheduled(
    strategy: tf.distribute.Strategy,
    coordinator: ClusterCoordinator,
    compute: Callable[[Feed], tf.Tensor],
    batches: Batches,
) -> Callable[..., Any]:
    """Return a function of a feed that a free worker runs, from `compute(tensors)`. `_in_order` waits for its results.

    Arrays are sent to each worker once. Afterwards only the indices of a batch are sent.
    """
    arrays = batches.arrays or (tf.zeros([]),)
    sent = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensors(arrays).repeat())
    iterator = iter(sent)

    def on_worker(iterator: Any, *feed: tf.Tensor) -> tf.Tensor:  # noqa: ANN401 (the worker's own)
        with tf.device(HOST):  # else all arrays would be copied to the GPU for each batch
            everything = next(iterator)
            tensors = gather(everything, feed) if batches.arrays else feed
        return strategy.run(compute, args=(tensors,))

    function = tf.function(on_worker)
    return lambda *feed: coordinator.schedule(function, args=(iterator, *feed))


def _in_order(function: Callable[..., Any], feeds: Iterable[Feed], *, ahead: int) -> Iterator[tf.Tensor]:
    """Yield the results in the order of the feeds. So many are always scheduled ahead."""
    pending: deque[Any] = deque()
    for feed in feeds:
        pending.append(function(*feed))
        if len(pending) > ahead:
            yield pending.popleft().fetch()
    while pending:
        yield pending.popleft().fetch()
