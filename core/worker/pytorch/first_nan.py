"""Find the layer that makes the first number that is not finite, while a training is repeated for this."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...language import tr
from .model import own_part, tensors
from .task.steps import StepModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor, nn

    from ..training.controller import TrainingController
    from .task.build import Task


class FirstNotFiniteError(RuntimeError):
    """A number is not finite. `str()` says where the first one was made."""


class NumberWatch:
    """Looks at the inputs, outputs and gradients of all layers, the loss, and the weights after each step.

    Each look waits for the device, so that a step takes several times as long.
    """

    def __init__(self, task: Task, controller: TrainingController) -> None:
        self._task, self._controller = task, controller
        self._skips = task.scaler is not None
        """Whether steps with gradients that are not finite are skipped, as usual for float16."""
        self._before = self._after = ""
        """The layer that made the last finite output, and the one whose output had the last finite gradient."""
        self._of_forward = self._of_gradient = ""
        """What is known of the first number in the first step, and of the first gradient, that is not finite."""
        self._usual = set[str]()
        """Where the first step has numbers that are not finite. If its loss is, that is on purpose, as in a mask."""
        self._is_first = True
        torch.compiler.set_stance("force_eager")  # a recipe may compile its model; a graph has no looks in between
        for each in (task, *task.turns):
            each.forward = task.module  # with its hooks, also around a step of the recipe
        task.module.register_forward_pre_hook(self._begin)
        for name, layer in task.module.named_modules():
            if not isinstance(layer, StepModule):
                title = f"{name or 'model'} ({type(layer).__name__})"
                layer.register_forward_pre_hook(partial(self._called, title), with_kwargs=True)
                layer.register_forward_hook(partial(self._returned, title))
        for name, parameter in task.module.named_parameters():
            if _not_finite([parameter]):
                self._usual.add(name)
            if parameter.requires_grad:
                parameter.register_hook(partial(self._gradient, tr("the weight {name}", name=name)))  # type: ignore[no-untyped-call]

    def watched(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a step that raises `FirstNotFiniteError`, once something in it was not finite."""

        def watched(batch: Any) -> Any:  # noqa: ANN401 (what the strategy's step gets and returns)
            self._of_gradient = ""
            found = step(batch)
            values, share = found if isinstance(found, tuple) else (found, 1.0)
            if share:
                if value := _not_finite([values.reshape(-1)[:1]]):  # the loss; metrics of the recipe follow it
                    raise self._error(self._of_forward or tr("the loss is {value}, made of finite outputs of {layer}",
                                                             value=value, layer=self._before))
                self._of_forward = ""
            if self._of_gradient and not self._skips:
                raise self._error(self._of_forward or self._of_gradient)
            for name, each in self._task.module.named_parameters():
                given = [] if each.grad is None else [each.grad]  # broken by another rank, which will say why
                if name not in self._usual and (value := _not_finite([each])) and not _not_finite(given):
                    raise self._error(tr("the optimizer makes {value} in the weight {name}, of finite gradients",
                                         value=value, name=name))
            self._is_first, self._of_forward = False, ""
            return found

        return watched

    def _error(self, what: str) -> FirstNotFiniteError:
        return FirstNotFiniteError(tr("In step {step}, {what}.", step=self._controller.step + 1, what=what))

    def _find(self, where: str, what: str) -> None:
        """Raise an error for a number that is not finite, or keep it until the loss of the first step is known.

        A validation changes no weight.
        """
        if where in self._usual or not self._task.module.training:
            return
        if not self._is_first:
            raise self._error(what)
        self._usual.add(where)
        self._of_forward = self._of_forward or what

    def _begin(self, *_: object) -> None:
        self._before = self._after = ""

    def _called(self, title: str, _: nn.Module, inputs: Any, named: Any) -> None:  # noqa: ANN401 (a layer's own)
        if value := _not_finite(tensors((inputs, named))):
            what = tr("the data have {value}", value=value)
            if self._before:
                what = tr("{value} is made after {before} and before {layer}, in the model's own code",
                          value=value, before=self._before, layer=title)
            self._find(f"before {title}", what)

    def _returned(self, title: str, layer: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ANN401 (as above)
        found = tensors(output)
        if value := _not_finite(found):
            given = [each.detach().float() for each in tensors(inputs) if each.is_floating_point() and each.numel()]
            of = tr(" of inputs from {low:.3g} to {high:.3g}", low=min(each.min().item() for each in given),
                    high=max(each.max().item() for each in given)) if given else ""
            weights = dict(layer.named_parameters())
            broken = next((name for name, each in weights.items() if _not_finite([each])), None)
            own = tr("; its weight {name} is not finite", name=broken) if broken else ""
            self._find(title, tr("layer {layer} makes {value}{of}{own}", layer=title, value=value, of=of, own=own))
        self._before = title
        for each in found:
            if each.requires_grad:
                each.register_hook(partial(self._gradient, tr("the output of {layer}", layer=title)))  # type: ignore[no-untyped-call]

    def _gradient(self, where: str, gradient: Tensor) -> None:
        if self._of_gradient:
            return
        if value := _not_finite([gradient]):
            after = tr("behind {place}", place=self._after) if self._after else tr("behind the loss")
            self._of_gradient = tr("the gradient of {where} is {value}, in the backward pass {after}",
                                   where=where, value=value, after=after)
        else:
            self._after = where


def _not_finite(values: Iterable[Tensor]) -> str:
    """Return `NaN` or `infinity` if a number among the values is, else the empty string."""
    for each in values:
        number = own_part(each.detach())
        number = number.coalesce().values() if number.is_sparse else number  # a gradient of an embedding may be
        if (number.is_floating_point() or number.is_complex()) and not torch.isfinite(number).all():
            return "NaN" if number.isnan().any() else tr("infinity")
    return ""
