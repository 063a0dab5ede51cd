"""Validation where ranks compute together: every rank takes part in every batch, and all end after the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from ._loop import Validation
from ._ranks import Lookout

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..context import Context
    from ..meter import Meter
    from ._loop import Task


class TogetherValidation(Validation):
    """For models that are whole on no rank: a forward pass is a collective."""

    def __init__(self, task: Task, context: Context, model: nn.Module, meter: Meter) -> None:
        super().__init__(task, context, model)
        self._lookout = Lookout(context, meter)

    def means(self) -> dict[str, list[float]]:
        """The means over the validation set; the same on every rank, nothing when it was cut short."""
        for buffer in self._model.buffers():  # batch normalisation: all judge rank 0's running statistics
            dist.broadcast(buffer, src=0)
        total = self.sums()
        dist.all_reduce(total)
        return self.named(total)

    @torch.no_grad()
    def sums(self) -> Tensor:
        """This rank's sums, as `Validation.sums`."""
        batches = self._task.val
        assert batches is not None
        total = torch.zeros(len(self._task.metrics) + 3, dtype=torch.float64, device=batches.device)
        self._lookout.begin()
        self._model.eval()
        for step, (batch,) in enumerate(batches.in_order()):
            values = torch.stack(self._measure(batch)).double()
            if batch.share:
                total[:-1] += batch.share * batches.size(step) * values
            if self._lookout.ends():
                total[-1] = 1
                break
        self._model.train()
        return total
