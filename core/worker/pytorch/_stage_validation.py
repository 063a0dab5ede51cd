"""Validation through a pipeline: forward only, judged on the last rank, known to all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ._flow import Flow, steps
from ._loop import Validation
from ._ranks import Lookout

if TYPE_CHECKING:
    from torch import Tensor

    from ..context import Context
    from ..meter import Meter
    from ._loop import Task


class StageValidation(Validation):
    """The means over a validation set."""

    def __init__(self, task: Task, context: Context, flow: Flow, meter: Meter) -> None:
        super().__init__(task, context, task.model)
        self._flow, self._lookout = flow, Lookout(context, meter)

    def means(self) -> dict[str, list[float]]:
        """The same on every rank; nothing when it was cut short."""
        total = self.sums()
        dist.all_reduce(total)
        return self.named(total)

    @torch.no_grad()
    def sums(self) -> Tensor:
        """As `Validation.sums`: on all ranks but the last they are of no item."""
        batches = self._task.val
        assert batches is not None
        total = torch.zeros(len(self._task.metrics) + 3, dtype=torch.float64, device=batches.device)
        self._lookout.begin()
        self._model.eval()
        for step in steps(batches, self._context):
            output = self._flow.outputs(step)
            if output is not None:
                assert step.batch is not None
                total[:-1] += step.items * torch.stack(self._judged(output, step.batch.target)).double()
            if self._lookout.ends():
                total[-1] = 1
                break
        self._model.train()
        return total

    def _judged(self, output: Any, target: Tensor) -> list[Tensor]:  # noqa: ANN401 (whatever the last stage gives)
        """Loss, metrics and 1, each the mean over the batch."""
        task = self._task
        with task.autocast or contextlib.nullcontext():
            loss = task.loss(output, target)
        values = [loss, *(metric(output, target) for metric in task.metrics.values())]
        return [torch.as_tensor(value, device=loss.device).float() for value in values] + [loss.new_ones(()).float()]
