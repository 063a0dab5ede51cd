"""Put the parts of one model on several devices, and record which part is where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ....language import tr
from ...recipe import cannot_place
from ..stages.cost import tensors
from ..stages.cut import is_sequential, layers_of, split_evenly, split_points, too_few_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...context import Context


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
