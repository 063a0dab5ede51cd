"""The learning rate's way through the training: a linear warm-up, then constant or down along a cosine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..schema.settings import Training


class LearningRateSchedule:
    """A factor on the base learning rate for each optimizer step, counted from 1."""

    def __init__(self, training: Training, total_steps: int) -> None:
        self._cosine = training.schedule == "cosine"
        self._warmup = training.warmup_steps
        self._total = total_steps

    @property
    def varies(self) -> bool:
        """Whether the factor is ever another than 1."""
        return self._cosine or self._warmup > 0

    def factor(self, step: int) -> float:
        """Warm-up over `warmup_steps` (Goyal et al. 2017), then 1, or half a cosine (Loshchilov and Hutter 2017).

        The first step has a rate above 0, and so has the last: a step that changes nothing would be a waste.
        """
        if step <= self._warmup:
            return step / self._warmup
        if not self._cosine:
            return 1.0
        left = max(self._total - self._warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * (step - self._warmup - 1) / left))
