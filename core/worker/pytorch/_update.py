"""One optimizer step with what the run's settings add: schedule, decoupled weight decay, gradient clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.utils import clip_grad_norm_

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import nn

    from ..context import Context
    from ..controller import TrainingController

    Clip = Callable[[Iterable[nn.Parameter], float], object]


def updater(
    optimizer: torch.optim.Optimizer, context: Context, course: TrainingController, *, clip: Clip = clip_grad_norm_
) -> Callable[[], object]:
    """The function that makes an optimizer step: plain `optimizer.step` where the settings add nothing.

    `clip` scales gradients in place to a largest norm, over the whole model.
    """
    training = context.training
    if training.weight_decay is None and training.gradient_clip is None and not course.varies:
        return optimizer.step
    return _Update(optimizer, context, course, clip)


class _Update:
    def __init__(
        self, optimizer: torch.optim.Optimizer, context: Context, course: TrainingController, clip: Clip
    ) -> None:
        self._optimizer, self._course, self._clip = optimizer, course, clip
        self._decay, self._most = context.training.weight_decay, context.training.gradient_clip
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        if self._decay is not None:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.0  # ours takes its place

    def __call__(self) -> None:
        groups = self._optimizer.param_groups  # asked for anew: loading a checkpoint replaces them
        if self._course.varies:
            factor = self._course.rate_factor()
            for group, rate in zip(groups, self._rates, strict=True):
                group["lr"] = rate * factor
        if self._most is not None:
            self._clip([parameter for group in groups for parameter in group["params"]], self._most)
        if self._decay:
            self._shrink(self._decay)
        self._optimizer.step()

    @torch.no_grad()
    def _shrink(self, decay: float) -> None:
        """Loshchilov and Hutter 2019: apart from the gradient, whatever the optimizer, as AdamW does it."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * decay)
