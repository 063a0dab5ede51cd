"""The layers of a model: cut a sequence, put them on several devices, compile them, compute them twice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from ...language import tr, tr_plural
from ..recipe import cannot_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..context import Context

    Layer = tuple[str, nn.Module]


class CannotSplitError(ValueError):
    """A model cannot be cut. `str()` is the reason, to be used as the end of a sentence."""


def is_sequential(model: nn.Module) -> bool:
    """Return whether a model is a plain sequence of layers."""
    return isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward


def layers_of(row: nn.Module, prefix: str = "") -> Iterator[Layer]:
    """Yield the layers of an `nn.Sequential` and of those inside it, with their full names."""
    for name, layer in row.named_modules(remove_duplicate=False):  # an activation may be used twice
        if "." in name or not name:
            continue
        if is_sequential(layer):
            yield from layers_of(layer, f"{prefix}{name}.")
        else:
            yield prefix + name, layer


def learns(layer: nn.Module) -> bool:
    return any(each.requires_grad for each in layer.parameters())


def tensors(value: Any) -> list[Tensor]:  # noqa: ANN401 (whatever a layer returns)
    return [each for each in tree_leaves(value) if isinstance(each, Tensor)]


def own_part(gradient: Tensor) -> Tensor:
    """Return this rank's part of a gradient, or of a weight."""
    # Only a DTensor has `to_local`. Its class is not imported here: on one device it is not needed.
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def split_points(layers: Sequence[nn.Module]) -> list[int]:
    """Return the numbers of the layers at which a part may begin: each part must have parameters to train.

    Layers that share a parameter stay together: two processes, or two devices, would have one copy each.
    """
    trained = [[id(each) for each in layer.parameters() if each.requires_grad] for layer in layers]
    last = {each: number for number, own in enumerate(trained) for each in own}
    found, reach, seen = [], 0, False
    for number, own in enumerate(trained):
        if own and seen and number > reach:
            found.append(number)
        seen = seen or bool(own)
        reach = max([reach, *(last[each] for each in own)])
    return found


def too_few_parts(allowed: Sequence[object]) -> str:
    """Return the reason why a model with these split points cannot be divided into more parts."""
    count = len(allowed) + 1
    return tr_plural(
        "it can be divided into at most {count} part with parameters to train",
        "it can be divided into at most {count} parts with parameters to train",
        count,
    )


def with_layers_before(number: int, layers: Sequence[nn.Module]) -> list[int]:
    """Return a split point and the layers right before it that train nothing and may go with either part."""
    first = number
    while not learns(layers[first - 1]):
        first -= 1
    return list(range(first, number + 1))


def split_evenly(weights: Sequence[float], allowed: Sequence[Sequence[int]], parts: int) -> list[int] | None:
    """Return the number of the first layer of each part, or None if there are too few places to cut.

    `allowed`: the places in order; for each, the layers of which one may be the first after the cut. Of equally good
    last cuts the earliest is taken.
    """
    if len(allowed) + 1 < parts:
        return None
    # For each end: the weight of the heaviest part and where each part begins; each round adds a part.
    ends = [(place, number) for place, numbers in enumerate(allowed) for number in numbers]
    best = {end: (sum(weights[: end[1]]), [0]) for end in [*ends, (len(allowed), len(weights))]}
    for _ in range(1, parts):
        best = {end: _add_part(best, weights, end) for end in best}
    return best[len(allowed), len(weights)][1]


def _add_part(
    best: Mapping[tuple[int, int], tuple[float, list[int]]], weights: Sequence[float], end: tuple[int, int]
) -> tuple[float, list[int]]:
    """Return the best cuts up to this end with one more part, which begins at an earlier place than it ends."""
    choices = [
        (max(heaviest, sum(weights[cut : end[1]])), [*begins, cut])
        for (place, cut), (heaviest, begins) in best.items()
        if place < end[0]
    ]
    return min(choices, default=(float("inf"), [end[1]]))


def place_in_order(model: nn.Module, devices: Sequence[torch.device], recipe: str) -> nn.Module:
    """Divide a sequence of layers over the devices in order, so that each holds about as many parameters.

    Parameters are balanced, not time: one device works at a time here, and only memory is gained.
    Raises `ValueError` for a model that cannot be divided.
    """
    if not is_sequential(model):
        raise cannot_place(
            recipe, len(devices), tr("its class is {kind}, not nn.Sequential", kind=type(model).__name__)
        )
    layers = [layer for _, layer in layers_of(model)]
    allowed = split_points(layers)
    sizes = [sum(each.numel() for each in layer.parameters()) for layer in layers]
    begins = split_evenly(sizes, [[each] for each in allowed], len(devices))
    if begins is None:
        raise cannot_place(recipe, len(devices), too_few_parts(allowed))
    for device, begin, end in zip(devices, begins, [*begins[1:], len(layers)], strict=True):
        if begin != begins[0]:  # batches are on the first device already
            layers[begin].register_forward_pre_hook(_move_inputs(device))
        for layer in layers[begin:end]:
            layer.to(device)
    return model


def _move_inputs(device: torch.device) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    return lambda _, inputs: tuple(each.to(device) if isinstance(each, Tensor) else each for each in inputs)


def across(measure: Callable[..., Any], home: torch.device) -> Callable[..., Any]:
    """Return the loss or metric with its target moved to the output's device, and its value moved to `home`."""

    moved_to: torch.device | None = None

    def measured(output: Any, target: Tensor) -> Any:  # noqa: ANN401 (whatever the recipe's functions take and return)
        nonlocal moved_to
        there = (output if isinstance(output, Tensor) else tensors(output)[0]).device
        if there != moved_to and isinstance(measure, nn.Module):
            measure.to(there)  # its class weights
            moved_to = there
        value = measure(output, target if target.device == there else target.to(there))
        return value.to(home) if isinstance(value, Tensor) and value.device != home else value

    return measured


class DeviceRecorder(TorchFunctionMode):
    """Records on which device tensors are put: PyTorch has one CPU device and forgets the number of ours."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[int, int] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401 (torch's protocol)
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        named = [each for each in (*args, *(kwargs or {}).values()) if isinstance(each, torch.device)]
        if isinstance(result, Tensor) and named and named[0].index is not None:
            self._numbers[result.data_ptr()] = named[0].index
        return result

    def number(self, tensor: Tensor) -> int:
        """Return the number of the run's device that holds the tensor; the first unless another was named."""
        return tensor.device.index if tensor.device.index is not None else self._numbers.get(tensor.data_ptr(), 0)


def record_parts(context: Context, model: nn.Module, recorder: DeviceRecorder) -> None:
    """Record which parameters are on which of the ticked devices."""
    parameters = list(model.named_parameters())
    for number, device in enumerate(context.assignment.devices):
        here = [(name, each) for name, each in parameters if recorder.number(each) == number]
        where = ", ".join(sorted({str(each.device) for _, each in here}))
        size_bytes = sum(each.nbytes for _, each in here)
        context.record_parts(device, [name for name, _ in here], where, size_bytes=size_bytes)
        if not here:
            context.notice_empty_device(device)


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
    # A second forward pass would count twice in the running statistics of a batch normalisation.
    usable = [
        block for block in found
        if not any(isinstance(inner, _NormBase) and inner.track_running_stats for inner in block.modules())
    ]
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
