"""Measure what each layer of a model costs: the time of its forward and backward pass on one real micro-batch."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ..model.placing import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from ..model.placing import Layer

    Autocast = AbstractContextManager[Any] | None

REPEATS = 5
"""Least number of measurements after one warm-up. The median counts."""
MIN_MEASURED_S = 0.05
"""Seconds to measure a quick layer at least: a few times would be mostly noise."""
MAX_MEASURED_S = 1.0
"""Seconds after which a slow layer is not measured again."""


class Call(NamedTuple):
    """One call of a layer."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


NOTHING = Call((torch.zeros(1),), {}, None)
"""A call of an empty layer, for the time that a pass takes without any layer."""


def calls(model: nn.Module, layers: Sequence[Layer], inputs: Sequence[Tensor]) -> dict[str, list[Call]]:
    """Return each layer's inputs and output when the model computes this micro-batch, in order of the first calls."""
    seen: dict[str, list[Call]] = {}

    def note(name: str) -> Any:  # noqa: ANN401 (a hook, whatever the layer takes)
        return lambda _, args, kwargs, output: seen.setdefault(name, []).append(Call(args, kwargs, output))

    hooks = [layer.register_forward_hook(note(name), with_kwargs=True) for name, layer in layers]
    try:
        with unchanged(model), torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def seconds(layer: nn.Module, call: Call, device: torch.device, autocast: Autocast, *, first: bool = False) -> float:
    """Return the seconds of one forward and backward pass on the device. The layer is moved there only meanwhile.

    `first`: no layer before it is trained, so its inputs need no gradient.
    """
    given = tree_map_only(Tensor, lambda tensor: tensor.detach().to(device), (call.args, call.kwargs))
    layer.to(device)
    times: list[float] = []
    with unchanged(layer):
        while (len(times) <= REPEATS or sum(times) < MIN_MEASURED_S) and sum(times) < MAX_MEASURED_S:
            began = _now(device)
            _forward_and_backward(layer, given, autocast, first=first)
            times.append(_now(device) - began)
    layer.zero_grad(set_to_none=True)
    layer.to("cpu")
    return statistics.median(times[1:] or times)


def draws(layer: nn.Module, call: Call) -> bool:
    """Return whether the layer draws random numbers, as dropout does: they differ on another rank."""
    args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), (call.args, call.kwargs))
    with unchanged(layer), torch.no_grad():
        before = torch.get_rng_state()
        layer(*args, **kwargs)
        return not torch.equal(before, torch.get_rng_state())


def _forward_and_backward(layer: nn.Module, given: Any, autocast: Autocast, *, first: bool) -> None:  # noqa: ANN401
    args, kwargs = given if first else tree_map_only(Tensor, _with_gradient, given)
    with torch.enable_grad(), autocast or contextlib.nullcontext():
        outputs = [each for each in tensors(layer(*args, **kwargs)) if each.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])


def _with_gradient(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().requires_grad_().clone()  # not a leaf: the layer may work in place


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Restore buffers (running statistics) and random states at the end."""
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
        yield
    with torch.no_grad():
        for buffer, value in kept:
            buffer.copy_(value)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
