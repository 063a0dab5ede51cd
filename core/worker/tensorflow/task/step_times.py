"""Measure where the time of a step of TensorFlow goes: operations of its graph note the time as they are reached.

On a GPU, an operation is reached before the GPU has computed the ones before it. Only the wait for data is measured
there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ...training import step_times
from .data import HOST

if TYPE_CHECKING:
    from ...context import Context
    from .build import Task


class StepTimes(step_times.StepTimes):
    """Measures a step by the host's clock, and by the notes of the graph of all its steps, which stays the same."""

    def __init__(self, context: Context, task: Task, *, reads_in_graph: bool = False, replicas: int = 1) -> None:
        """`reads_in_graph`: whether the graph waits for its batch. `replicas`: those of all ranks."""
        super().__init__(context)
        training, self._is_cpu = context.training, context.assignment.kind == "cpu"
        tells_passes = self._is_cpu and len(task.turns) == training.accumulation == 1
        parts = [*(["data"] * reads_in_graph), *(["forward", "backward"] * tells_passes)]
        if training.compile or replicas > context.world_size:  # the operations of one replica may wait for another's
            parts = []
        with tf.device(HOST):
            self._notes = {part: tf.Variable(0.0, dtype=tf.float64) for part in parts}
        self._rest = "optimizer" if "backward" in self._notes and replicas == 1 else ""
        for each in task.turns:
            each.times = self

    def note(self, part: str, computed: Any) -> Any:  # noqa: ANN401 (tensors in any structure)
        """Let the graph note when these tensors are computed, which ends the part; return them for what follows.

        TensorFlow computes in any order that the dependencies allow: what follows must depend on the note.
        """
        if part not in self._notes:
            return computed
        tensors = [each for each in tf.nest.flatten(computed, expand_composites=True) if each is not None]
        with tf.device(HOST), tf.control_dependencies(tensors):
            noted = self._notes[part].assign(tf.timestamp())

        def following(tensor: Any) -> Any:  # noqa: ANN401 (a tensor, or no dense one)
            with tf.control_dependencies([noted]):
                return tf.identity(tensor) if isinstance(tensor, tf.Tensor) else tensor

        if part == "forward":  # the backward pass follows, which depends on other tensors than the loss
            return tf.custom_gradient(lambda loss: (tf.identity(loss), following))(computed)
        return tf.nest.map_structure(following, computed)

    def end(self, step: int, loss: Any) -> None:  # noqa: ANN401 (a tensor, or Keras' logs)
        if not self._is_cpu:
            tf.nest.flatten(loss)[0].numpy()  # waits for the GPU
        super().end(step, loss)
        now, ahead_s = self._marks.pop()[1], time.time() - time.monotonic()
        noted = [(part, float(at.numpy()) - ahead_s) for part, at in self._notes.items()]
        told = all(at >= self._marks[-1][1] for _, at in noted)  # a model's own `train_step` may not come by
        self._marks += [*(noted if told else []), (self._rest if told else "", now)]
        if not self._is_cpu:
            # The GPU computes a batch while the host waits for the next: only a longer wait holds it up.
            (_, began), (part, ready), *_ = self._marks
            self._marks[0] = ("", began + min(ready - began, now - ready) if part == "data" else began)
