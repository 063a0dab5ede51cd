"""What goes from stage to stage of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from .._ranks import told_by
from .cost import unchanged
from .cut import Uncuttable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cost import Autocast


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """What goes into a stage and comes out, for one micro-batch: tensors of the right shapes."""

    takes: tuple[Tensor, ...]
    gives: tuple[Tensor, ...]


class Crossed(nn.Module):
    """A stage as its neighbours see it: what it gives lies densely in memory, as sending requires.

    What goes back does so by itself: the gradient of a leaf is laid out as the leaf is.
    """

    PREFIX = "stage."

    def __init__(self, stage: nn.Module, autocast: Autocast) -> None:
        super().__init__()
        self.stage, self._autocast = stage, autocast
        self._in_place = any(getattr(layer, "inplace", False) for layer in stage.modules())

    def __call__(self, *inputs: Tensor) -> Any:  # noqa: ANN401
        """As it was compiled, if it was. Hooks are not looked for, since nobody can set one: every call would pay."""
        compiled = self._compiled_call_impl
        return self.forward(*inputs) if compiled is None else compiled(*inputs)

    def forward(self, *inputs: Tensor) -> Any:  # noqa: ANN401
        if self._in_place:  # what was received is a leaf, into which no layer may write
            inputs = tuple(each.clone() if each.requires_grad else each for each in inputs)
        if self._autocast is None:
            outputs = self.stage(*inputs)
        else:
            with self._autocast:
                outputs = self.stage(*inputs)
        if isinstance(outputs, Tensor):
            return outputs.contiguous()
        return tree_map_only(Tensor, Tensor.contiguous, outputs)


def crossing(module: nn.Module, inputs: Sequence[Tensor], device: torch.device) -> Crossing:
    """Each rank in turn computes its stage once, on what the one before says that it gives."""
    own, told, found = dist.get_rank(), [_shape(each) for each in inputs], None
    for rank in range(dist.get_world_size()):
        if rank == own:
            takes = [torch.zeros(size, dtype=dtype, device=device, requires_grad=wants) for size, dtype, wants in told]
            gives = _given(module, takes, own)
            found = Crossing(takes=tuple(takes), gives=tuple(gives))
            told = [_shape(each) for each in gives]
        told = told_by(rank, told, device)
    assert found is not None
    return found


def _given(module: nn.Module, takes: Sequence[Tensor], rank: int) -> list[Tensor]:
    with unchanged(module), torch.enable_grad():
        outputs = module(*takes)
    gives = [outputs] if isinstance(outputs, Tensor) else outputs
    if not isinstance(gives, (tuple, list)) or not all(isinstance(each, Tensor) for each in gives):
        raise Uncuttable(f"stage {rank} gives a {type(outputs).__name__}, not a tensor or a tuple of tensors")
    return [each.detach().requires_grad_(each.requires_grad) for each in gives]


def _shape(tensor: Tensor) -> tuple[torch.Size, torch.dtype, bool]:
    return tensor.shape, tensor.dtype, tensor.requires_grad
