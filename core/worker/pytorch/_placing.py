"""Putting the parts of one model on several devices, and telling which part is where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .stages.cost import tensors
from .stages.cut import evenly, is_row, layers_of, may_begin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..context import Context


def in_turn(model: nn.Module, devices: Sequence[torch.device], recipe: str) -> nn.Module:
    """A row of layers, cut over the devices in order so that each keeps about as many parameters.

    Of these, not of the time: one device works at a time here, and what is gained is memory.
    Raises `ValueError` with a sentence for a model that cannot be cut.
    """
    if not is_row(model):
        raise ValueError(_cannot(recipe, len(devices), f"it is a {type(model).__name__}, not an nn.Sequential"))
    layers = [layer for _, layer in layers_of(model)]
    allowed = may_begin(layers)
    sizes = [sum(each.numel() for each in layer.parameters()) for layer in layers]
    begins = evenly(sizes, [[each] for each in allowed], len(devices))
    if begins is None:
        why = f"it has no more than {len(allowed) + 1} part(s) with parameters to train, one after the other"
        raise ValueError(_cannot(recipe, len(devices), why))
    for device, begin, end in zip(devices, begins, [*begins[1:], len(layers)], strict=True):
        if begin != begins[0]:  # the batches come to the first device as they are
            layers[begin].register_forward_pre_hook(_bring_to(device))
        for layer in layers[begin:end]:
            layer.to(device)
    return model


def _bring_to(device: torch.device) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    return lambda _, inputs: tuple(each.to(device) if isinstance(each, Tensor) else each for each in inputs)


def _cannot(recipe: str, devices: int, why: str) -> str:
    return (
        f"The model of {recipe} cannot be placed on {devices} devices because {why}. Tick fewer devices, "
        "or give the recipe a function placed_model(devices), which returns the model with its parts on these devices."
    )


def across(measure: Callable[..., Any], home: torch.device) -> Callable[..., Any]:
    """A loss or metric whose target is brought to where the output is, and its value home, where all is added up."""

    moved_to: torch.device | None = None

    def measured(output: Any, target: Tensor) -> Any:  # noqa: ANN401 (whatever the recipe's functions take and give)
        nonlocal moved_to
        there = (output if isinstance(output, Tensor) else tensors(output)[0]).device
        if there != moved_to and isinstance(measure, nn.Module):
            measure.to(there)  # its class weights
            moved_to = there
        value = measure(output, target if target.device == there else target.to(there))
        return value.to(home) if isinstance(value, Tensor) and value.device != home else value

    return measured


class Watch(TorchFunctionMode):
    """Notes on which device tensors are put: PyTorch knows one CPU only, and forgets which of ours was meant."""

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
        """Which of the run's devices this was put on; the first unless another was named."""
        return tensor.device.index if tensor.device.index is not None else self._numbers.get(tensor.data_ptr(), 0)


def tell(context: Context, model: nn.Module, watch: Watch) -> None:
    """Record what lies on which of the ticked devices."""
    parameters = list(model.named_parameters())
    for number, device in enumerate(context.placement.devices):
        here = [(name, str(each.device)) for name, each in parameters if watch.number(each) == number]
        context.parts(device, [name for name, _ in here], ", ".join(sorted({where for _, where in here})))
