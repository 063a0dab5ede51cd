"""What workers of TensorFlow send each other besides gradients: sums of numbers, and bytes over several machines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ....language import tr

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context

LINK_BYTES = 1024 * 1024
"""Size of the tensor that is summed over all workers to check the link."""
LINK_TRIALS = 3
WORD = np.dtype(np.int64)
"""Bytes travel as whole numbers, whose sum with zeros is exact."""


def adder(strategy: tf.distribute.Strategy, dtype: tf.DType) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Return a function that returns the sums of plain numbers over all workers."""

    def over_all(numbers: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

    add_up = tf.function(
        lambda numbers: strategy.run(over_all, args=(numbers,)), input_signature=[tf.TensorSpec([None], dtype)]
    )
    return lambda numbers: np.asarray(add_up(tf.constant(numbers, dtype)).numpy())


def broadcaster(strategy: tf.distribute.Strategy, rank: int) -> Callable[[int, bytes], bytes]:
    """Return a function that returns on all workers the bytes that one of them gives. `rank`: that of this one."""
    add_up = adder(strategy, tf.int64)

    def broadcast(sender: int, data: bytes) -> bytes:
        size = int(add_up([len(data) if rank == sender else 0])[0])
        if not size:
            return b""
        words = np.zeros(-(-size // WORD.itemsize), WORD)
        if rank == sender:
            words.view(np.uint8)[:size] = np.frombuffer(data, np.uint8)
        return add_up(words).tobytes()[:size]

    return broadcast


def check_link(strategy: tf.distribute.Strategy, context: Context) -> None:
    """Sum a tensor over all workers before anything trains, and record how fast that is.

    Raises `RuntimeError` with a sentence if the sum is wrong.
    """
    add_up = adder(strategy, tf.float32)
    ones = np.ones(LINK_BYTES // 4, np.float32)
    seconds = []
    for _ in range(LINK_TRIALS):
        began = time.perf_counter()
        if not (add_up(ones) == context.world_size).all():
            raise RuntimeError(
                tr("A test of the network between the machines gave wrong sums. Check it, then start the run again.")
            )
        seconds.append(time.perf_counter() - began)
    if context.rank == 0:
        context.record_link(
            bytes=LINK_BYTES,
            seconds=min(seconds),
            bytes_per_s=LINK_BYTES / max(min(seconds), 1e-9),
            backend="grpc" if context.assignment.kind == "cpu" else "auto",  # on GPUs TensorFlow decides
        )
