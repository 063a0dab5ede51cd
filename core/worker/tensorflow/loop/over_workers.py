"""What workers of TensorFlow send each other besides gradients: sums of numbers, and bytes over several machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ...training import link_check
from ...training.link_check import LINK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context

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
    """Check the link between the workers: see `link_check`."""
    add_up = adder(strategy, tf.float32)
    link_check.check_link(
        context,
        "grpc" if context.assignment.kind == "cpu" else "auto",  # on GPUs TensorFlow decides
        lambda: np.ones(LINK_BYTES // 4, np.float32),
        lambda ones: bool((add_up(ones) == context.world_size).all()),
    )
