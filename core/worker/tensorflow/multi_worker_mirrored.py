"""Data parallel with one process per device: MultiWorkerMirroredStrategy, joined through TF_CONFIG."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ..training import link_check
from ..training.host_files import HostFiles
from ..training.link_check import LINK_BYTES
from .loop.common import fetch, train_replicas
from .loop.devices import claim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...schema.rank import RankAssignment
    from ..context import Context
    from ..recipe import LoadedRecipe


WORD = np.dtype(np.int64)
"""Bytes travel as whole numbers, whose sum with zeros is exact."""


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    claim(context)
    os.environ["TF_CONFIG"] = _cluster(context.assignment)
    context.enter_phase("join")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = None
    if context.assignment.meeting:
        _check_link(strategy, context)
        files = HostFiles(context, _broadcaster(strategy, context.rank))
        files.fetch_checkpoint()
    train_replicas(strategy, recipe, context, Ranks(_adder(strategy, tf.float64), files))


def _cluster(assignment: RankAssignment) -> str:
    """Return `TF_CONFIG`, by which every worker finds the others."""
    return json.dumps({
        "cluster": {"worker": list(assignment.addresses)},
        "task": {"type": "worker", "index": assignment.rank},
    })  # fmt: skip


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


def _check_link(strategy: tf.distribute.Strategy, context: Context) -> None:
    """Check the link between the workers: see `link_check`."""
    add_up = _adder(strategy, tf.float32)
    link_check.check_link(
        context,
        "grpc" if context.assignment.kind == "cpu" else "auto",  # on GPUs TensorFlow decides
        lambda: np.ones(LINK_BYTES // 4, np.float32),
        lambda ones: bool((add_up(ones) == context.world_size).all()),
    )
