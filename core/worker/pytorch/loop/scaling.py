"""Loss scaling for float16: small gradients would become 0, and large ones infinite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...training.skipped_steps import SkippedSteps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context


class LossScaler:
    """Scales the loss of one optimizer, so that gradients in float16 neither vanish nor overflow.

    A step whose gradients overflow is skipped, and the scale is halved. It doubles after 2000 good steps.
    """

    def __init__(self, device: torch.device, *, name: str = "") -> None:
        """`name`: the optimizer's, where there are several."""
        self._scaler = _Scaler(device.type)
        self._scaler.scale(torch.ones((), device=device))  # torch makes the scale with its first use
        self._skipped = SkippedSteps(name=name)

    @property
    def skipped(self) -> int:
        """Steps skipped since the training began."""
        return self._skipped.count

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss times the scale."""
        scaled: torch.Tensor = self._scaler.scale(loss)
        return scaled

    def unscale(self, optimizer: torch.optim.Optimizer, agree: Callable[[torch.Tensor], object] | None) -> bool:
        """Divide the gradients by the scale. Return whether all are finite, on all ranks.

        `agree`: sets a number to the largest of all ranks, where each rank has a part of the gradients.
        """
        self._scaler.unscale_(optimizer)
        found = self._scaler.found_infinite(optimizer)
        if agree is not None:
            for each in found:
                agree(each)
        return not sum(each.item() for each in found)

    def finish(self, optimizer: torch.optim.Optimizer, *, finite: bool) -> None:
        """Take the optimizer's step if the gradients are finite, and adapt the scale."""
        self._scaler.step(optimizer)
        self._scaler.update()
        self._skipped.count += not finite

    def report(self, context: Context, step: int) -> None:
        """Tell about skipped steps."""
        self._skipped.report(context, step, scale=self._scaler.get_scale())

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"scaler": self._scaler.state_dict(), "skipped": self._skipped.count, "reported": self._skipped.reported}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._scaler.load_state_dict(state["scaler"])
        self._skipped.count, self._skipped.reported = state["skipped"], state["reported"]


class _Scaler(torch.amp.GradScaler):
    def found_infinite(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        """Return for each device a tensor that is above 0 if a gradient there is not finite."""
        return list(self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values())
