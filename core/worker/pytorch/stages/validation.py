"""Validation through a pipeline: forward only, judged on the last rank, known to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._together import LockstepValidation
from .flow import Flow, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ...context import Context
    from ...controller import TrainingController
    from ...metrics_reporter import MetricsReporter
    from .._loop import Task


class StageValidation(LockstepValidation):
    """The means over a validation set."""

    def __init__(
        self, task: Task, context: Context, flow: Flow, course: TrainingController, meter: MetricsReporter
    ) -> None:
        super().__init__(task, context, task.model, course, meter)
        self._flow = flow

    def _batches(self) -> Iterator[tuple[float, list[Tensor]] | None]:
        assert self._task.val is not None
        for step in steps(self._task.val, self._context):
            output = self._flow.outputs(step)
            if output is None:
                yield None
                continue
            assert step.batch is not None
            yield step.items, self._judge(output, step.batch.target)
