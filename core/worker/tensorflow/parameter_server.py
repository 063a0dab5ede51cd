"""Asynchronous data parallel: each worker takes the next batch and updates the server's variables by itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import tensorflow as tf

from ...language import tr
from .loop.common import loop
from .loop.coordinator import CoordinatedSaver, Workers, cluster_of, serve, workers_of
from .loop.devices import claim
from .loop.step import WholeStep
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from .task.data import Feed


def train(recipe: LoadedRecipe, context: Context) -> None:
    """As the chief, train to the last epoch or until a stop or a pause is requested; as any other, serve the chief."""
    claim(context)
    os.environ["TF_CONFIG"] = cluster_of(context.assignment)
    if context.assignment.role == "chief":
        _coordinate(recipe, context)
    else:
        serve(context.assignment)


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

    workers = Workers(strategy, coordinator, workers_of(context.assignment))
    step = workers.computing(train_on, task.train)
    measure = workers.computing(measure_on, task.val) if task.val is not None else step
    saver = CoordinatedSaver(coordinator, task.model, [turn.optimizer for turn in task.turns], context)
    loop(task, context, step, measure, each=workers.each, saver=saver)
