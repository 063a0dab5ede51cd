"""Models that can be cut into stages: the recipe's own stages, a sequence of layers, or a traced model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from ....language import tr
from ..model.placing import is_sequential, layers_of, split_points, tensors, with_layers_before
from ..task.build import seed_everything
from .cost import draws
from .trace import inner_layers, traced_stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...recipe import LoadedRecipe
    from ..model.placing import Layer
    from .cost import Call


class Source(Protocol):
    """A model that can be cut between its layers."""

    model: nn.Module

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:
        """Return the layers in order. `inputs` are those of a micro-batch, on the CPU."""

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """Return the places at which a stage may begin; for each, the numbers of the layers that may be its first."""

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:
        """Return one of the stages that begin at these layers, on its device. Nothing else is moved there."""


def source(recipe: LoadedRecipe, model: nn.Module, seed: int) -> Source:
    """Return how this recipe's model can be cut."""
    if recipe.has("stages"):
        seed_everything(seed)  # for the weights of model()
        return ListedSource(recipe.call("stages"), recipe.name)
    return SequentialSource(model) if is_sequential(model) else TracedSource(model)


class SequentialSource:
    """An `nn.Sequential`: a stage is the whole sequence without the layers of other stages.

    Its parameters therefore keep their names in the whole model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:  # noqa: ARG002
        return list(layers_of(self.model))

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """Return the places where a single tensor goes from layer to layer: a stage would unpack several.

        Layers without parameters, such as activations, may go with either stage, unless more data would have to be
        sent or their result would differ: costs are measured, and the trained model must not depend on them.
        """
        modules = [layer for _, layer in layers]
        given = [calls[name][0] for name, _ in layers]
        places = []
        for number in split_points(modules):
            *before, _ = with_layers_before(number, modules)
            fixed = max((each + 1 for each in before if draws(modules[each], given[each])), default=0)
            most = _bytes(given[number - 1].output)
            free = [each for each in before if each >= fixed and _bytes(given[each - 1].output) <= most]
            places.append([each for each in [*free, number] if isinstance(given[each - 1].output, Tensor)])
        return [place for place in places if place]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:  # noqa: ARG002
        names = [name for name, _ in layers_of(self.model)]
        for name in set(names) - set(_own(names, begins, number)):
            parent, _, last = name.rpartition(".")
            delattr(self.model.get_submodule(parent), last)
        return self.model.to(device)


class ListedSource:
    """What the recipe's `stages()` returned: modules, each of which gets the output of the one before."""

    def __init__(self, stages: Any, recipe: str) -> None:  # noqa: ANN401 (the recipe's)
        if not isinstance(stages, (list, tuple)) or not all(isinstance(each, nn.Module) for each in stages):
            kinds = ", ".join(type(each).__name__ for each in stages) if isinstance(stages, (list, tuple)) else ""
            what = tr("{kind} of {kinds}", kind=type(stages).__name__, kinds=kinds) if kinds else type(stages).__name__
            raise TypeError(
                tr(
                    "stages() of {recipe} returned {what}. Return a list of torch.nn.Module, in order.",
                    recipe=recipe,
                    what=what,
                )
            )
        self.model: nn.Module = Chain({str(number): each for number, each in enumerate(stages)})
        self._layers = [(str(number), each) for number, each in enumerate(stages)]

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:  # noqa: ARG002
        return self._layers

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:  # noqa: ARG002
        """Return the places between any two modules that are trained."""
        return [[each] for each in split_points([layer for _, layer in layers])]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:  # noqa: ARG002
        """Return one or, with more modules than devices, several modules in turn."""
        own = _own([name for name, _ in self._layers], begins, number)
        return Chain({name: layer for name, layer in self._layers if name in own}).to(device)


class TracedSource:
    """Any other model: traced by `torch.export` and cut where a layer is called."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:
        return inner_layers(self.model, inputs)

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """Return the layers that are called exactly once: the others would make several cuts."""
        return [[each] for each in split_points([layer for _, layer in layers]) if len(calls[layers[each][0]]) == 1]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:
        return traced_stage(self.model, inputs, begins[1:], number, device)


class Chain(nn.Module):
    """Modules in turn. Several outputs of one are several arguments of the next."""

    def __init__(self, members: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self._order = list(members.values())  # a module may occur twice
        for name, member in members.items():
            self.add_module(name, member)

    def forward(self, *inputs: Any) -> Any:  # noqa: ANN401
        value: Any = inputs
        for member in self._order:
            value = member(*value) if isinstance(value, (tuple, list)) else member(value)
        return value


def _bytes(value: Any) -> int:  # noqa: ANN401 (whatever a layer returns)
    return sum(each.numel() * each.element_size() for each in tensors(value))


def _own(names: Sequence[str], begins: Sequence[str], number: int) -> Sequence[str]:
    """Return the layers of one stage."""
    ends = [*begins[1:], None]
    end = ends[number]
    return names[names.index(begins[number]) : None if end is None else names.index(end)]
