"""The learning rate over the training: a linear warm-up, then constant or along a cosine; and advice on the warm-up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...language import tr

if TYPE_CHECKING:
    from ...schema.settings import Training

WARMUP_EPOCHS = 5
"""Epochs of the warm-up that is suggested for a scaled learning rate; fewer for a short training."""


class LearningRateSchedule:
    """A factor on the base learning rate for each optimizer step, counted from 1."""

    def __init__(self, training: Training, total_steps: int) -> None:
        self._cosine = training.schedule == "cosine"
        self._warmup = training.warmup_steps
        self._total = total_steps
        self._scale = training.rate_factor

    @property
    def varies(self) -> bool:
        """Whether the factor is ever different from 1."""
        return self._cosine or self._warmup > 0 or self._scale != 1

    def factor(self, step: int) -> float:
        """Warm up over `warmup_steps` (Goyal et al. 2017), then return 1 or half a cosine (Loshchilov, Hutter 2017).

        All of it is multiplied by the run's scaling of the rate (`Training.rate_factor`). The factor is above 0 at the
        first and at the last step: a step with rate 0 would change nothing.
        """
        if step <= self._warmup:
            return self._scale * step / self._warmup
        if not self._cosine:
            return self._scale
        left = max(self._total - self._warmup, 1)
        return self._scale * 0.5 * (1 + math.cos(math.pi * (step - self._warmup - 1) / left))


def suggest_warmup(training: Training, steps_per_epoch: int) -> str:
    """Return advice to warm up to a scaled learning rate, or "": Goyal et al. 2017 needed one of five epochs."""
    if training.rate_factor <= 1 or training.warmup_steps:
        return ""
    return tr(
        "The learning rate is {factor:g} times as high as for a batch of {reference}, and there is no warm-up. "
        "If the loss rises at the beginning, let the rate rise slowly: --warmup-steps {steps}, for example.",
        factor=training.rate_factor,
        reference=training.reference_batch,
        steps=steps_per_epoch * min(WARMUP_EPOCHS, max(1, training.epochs // 10)),
    )
