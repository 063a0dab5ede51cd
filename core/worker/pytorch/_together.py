"""Validation where ranks compute together: every rank takes part in every batch, and all end after the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._loop import Tally, Validation
from ._ranks import Lookout, share_buffers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from ..context import Context
    from ..controller import TrainingController
    from ..metrics_reporter import MetricsReporter
    from ._loop import Task


class LockstepValidation(Validation):
    """For models that are whole on no rank: a forward pass takes all of them."""

    def __init__(
        self, task: Task, context: Context, model: nn.Module, course: TrainingController, meter: MetricsReporter
    ) -> None:
        super().__init__(task, context, model, course)
        self._lookout = Lookout(context, meter)

    @torch.no_grad()
    def sums(self) -> Tensor:
        """This rank's sums, as `Validation.sums`."""
        tally, cut = Tally(), False
        self._lookout.begin()
        self._model.eval()
        for own in self._batches():
            if own is not None:
                tally.add(*own)
            if self._lookout.ends():
                cut = True
                self._course.meets = True  # all ranks have heard it
                break
        self._model.train()
        return self._ended(tally, cut=cut)

    def _batches(self) -> Iterator[tuple[float, list[Tensor]] | None]:
        """For each batch how many items this rank has judged, and what it found; None where it judged none."""
        raise NotImplementedError


class TogetherValidation(LockstepValidation):
    """Each rank judges its slice of every batch: a forward pass is a collective."""

    def sums(self) -> Tensor:
        """This rank's sums, as `Validation.sums`."""
        share_buffers(self._model)
        return super().sums()

    def _batches(self) -> Iterator[tuple[float, list[Tensor]] | None]:
        batches = self._task.val
        assert batches is not None
        for step, (batch,) in enumerate(batches.in_order()):
            values = self._measure(batch)  # also of nothing: the others wait for this rank
            yield (batch.share * batches.size(step), values) if batch.share else None
