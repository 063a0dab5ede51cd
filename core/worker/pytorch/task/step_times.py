"""Measure where the time of a step of PyTorch goes: by the host's clock, or for a GPU by events on its stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import register_multi_grad_hook

from ...training import step_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context
    from .build import Task


class StepTimes(step_times.StepTimes):
    """Measures a step. A GPU's parts are times on its stream: its wait for data is 0 if they are there in time.

    Nothing waits for the GPU: its events are read at the report, which has waited for the losses.
    """

    def __init__(self, context: Context, task: Task, *, tells_passes: bool = True, reduces: bool = False) -> None:
        """`tells_passes`: whether neither pass contains waiting for other ranks.

        `reduces`: whether DDP reduces the gradients within the backward pass, for which ranks do wait.
        """
        super().__init__(context)
        self._is_cuda = task.train.device.type == "cuda"
        self._tells_passes = tells_passes and not (self._is_cuda and len(context.assignment.own) > 1)
        self._reduced = [each for each in task.model.parameters() if each.requires_grad] if reduces else []
        self._module = task.module if reduces and not context.training.compile else None
        for each in (task, *task.turns):
            each.times = self
        if self._is_cuda:
            task.train.prepare = self.timed(task.train.prepare, "data")

    def watching(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function of a step that notes when its batch is there."""

        def watched(batch: Any) -> Any:  # noqa: ANN401 (whatever the step takes)
            if not self.runs:
                return step(batch)
            self.lap("copy" if self._is_cuda else "data")
            if self._module is None:
                return step(batch)
            # Before a forward pass, DDP waits for the buffers of rank 0.
            with self._module.register_forward_pre_hook(lambda *_: self.lap("wait")):
                return step(batch)

        return watched

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of a loss, and note when they are computed and when they are reduced."""
        if self._tells_passes:
            self.lap("forward")
        if self._reduced:
            # Of all parameters together, whatever buckets they are in: then the last bucket is handed over.
            with register_multi_grad_hook(self._reduced, lambda _: self.lap("backward")):
                loss.backward()  # type: ignore[no-untyped-call]
        else:
            loss.backward()  # type: ignore[no-untyped-call]
        if self._tells_passes:
            self.lap("wait" if self._reduced else "backward")

    def mark(self) -> Any:  # noqa: ANN401 (seconds, or an event, for which torch has no type)
        if not self._is_cuda:
            return super().mark()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, marks: list[Any]) -> list[float]:
        if not self._is_cuda:
            return marks
        last = self.mark()
        last.synchronize()  # at once: the stream is empty
        now = time.monotonic()
        return [now - mark.elapsed_time(last) / 1e3 for mark in marks]
