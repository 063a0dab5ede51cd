"""Data parallel with one process per device: MultiWorkerMirroredStrategy, joined through TF_CONFIG."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import tensorflow as tf

from ..training.host_files import HostFiles
from .loop.common import RankedReporter, train_replicas
from .loop.devices import claim
from .loop.over_workers import adder, broadcaster, check_link

if TYPE_CHECKING:
    from ...schema.rank import RankAssignment
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    claim(context)
    os.environ["TF_CONFIG"] = _cluster(context.assignment)
    context.enter_phase("join")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = None
    if context.assignment.meeting:
        check_link(strategy, context)
        files = HostFiles(context, broadcaster(strategy, context.rank))
        files.fetch_checkpoint()
    train_replicas(strategy, recipe, context, RankedReporter(context, adder(strategy, tf.float64), files))


def _cluster(assignment: RankAssignment) -> str:
    """Return `TF_CONFIG`, by which every worker finds the others."""
    return json.dumps({
        "cluster": {"worker": list(assignment.addresses)},
        "task": {"type": "worker", "index": assignment.rank},
    })  # fmt: skip
