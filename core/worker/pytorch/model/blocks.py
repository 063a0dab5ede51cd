"""The blocks of a model, such as the layers of a transformer: compute them again in the backward pass, or compile them.

The names of their parameters stay as they are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from ....language import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MIN_BLOCKS = 2
"""With one block, all activations would be in memory together in the backward pass, as without checkpointing."""


def items(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that follow one another in lists and sequences, outermost first."""
    for child in module.children():
        is_container = isinstance(child, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
        if is_container or _has_list(child):
            yield from items(child)
        else:
            yield child


def checkpoint_blocks(model: nn.Module, *, compiled: bool) -> None:
    """Keep only the inputs of each block in the forward pass, and compute the block again in the backward pass.

    Random states are restored for this, so dropout drops the same units. `compiled`: compile each block, too; a
    compiler of the whole model would leave such blocks out. Raises `ValueError` for a model without blocks.
    """
    found = list(_composites(model))
    usable = [block for block in found if not any(_counts(inner) for inner in block.modules())]
    if len(usable) < MIN_BLOCKS:
        raise ValueError(_no_blocks(model, found))
    for block in usable:
        if compiled:
            compile_module(block)
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def compile_module(module: nn.Module, backend: str | Callable[..., Any] = "inductor") -> None:
    """Compile a module in place, so that the names in its state_dict stay.

    `Module.compile` would do nothing for an `nn.Sequential` of PyTorch's own layers: it begins with `__call__`, and the
    compiler leaves out the code of `torch.nn`. Hooks, such as those of FSDP, stay outside of what is compiled.
    """
    module.forward = torch.compile(module.forward, backend=backend)


def compile_each(blocks: Iterable[nn.Module]) -> bool:
    """Compile each block separately, so that equal ones share their code. Return whether there was any."""
    found = list(blocks)
    for block in found:
        compile_module(block)
    return bool(found)


def _composites(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that have layers of their own and are not in another such module."""
    for child in module.children():
        layers = list(child.children())
        is_list = isinstance(child, (nn.ModuleList, nn.ModuleDict)) or _has_list(child)
        is_outer = isinstance(child, nn.Sequential) and any(list(layer.children()) for layer in layers)
        if is_list or is_outer:
            yield from _composites(child)
        elif layers:
            yield child


def _has_list(module: nn.Module) -> bool:
    return any(isinstance(inner, nn.ModuleList) for inner in module.modules())


def _counts(module: nn.Module) -> bool:
    """Return whether a second forward pass would count twice: in the running statistics of a batch normalisation."""
    return isinstance(module, _NormBase) and module.track_running_stats


def _no_blocks(model: nn.Module, found: list[nn.Module]) -> str:
    if len(found) >= MIN_BLOCKS:
        return tr(
            "Activation checkpointing computes each block twice, and the blocks of {kind} have a batch normalisation, "
            "which would count each batch twice. Switch activation checkpointing off.",
            kind=type(model).__name__,
        )
    return tr(
        "Activation checkpointing needs a model of several blocks with layers of their own, such as modules in a "
        "ModuleList, but {kind} has {count}. Switch activation checkpointing off.",
        kind=type(model).__name__,
        count=len(found),
    )
