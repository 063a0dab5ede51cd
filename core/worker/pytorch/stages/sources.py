"""Models that can be cut into the stages of a pipeline: the recipe's own stages, a row of layers, or a traced model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from .._build import seed_everything
from .cost import draws, tensors
from .cut import is_row, layers_of, may_begin, or_before
from .trace import inner_layers, traced_stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...recipe import LoadedRecipe
    from .cost import Call
    from .cut import Layer


class Source(Protocol):
    """A model that can be cut between its layers."""

    model: nn.Module

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:
        """In order; `inputs` are those of a micro-batch, on the CPU."""

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """The places at which another stage may begin: of each, the numbers of the layers that may be its first."""

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:
        """One of the stages that begin at these layers, on its device; nothing else goes there."""


def source(recipe: LoadedRecipe, model: nn.Module, seed: int) -> Source:
    """How this recipe's model can be cut."""
    if recipe.has("stages"):
        seed_everything(seed)  # for the weights of model()
        return Listed(recipe.call("stages"), recipe.name)
    return Row(model) if is_row(model) else Whole(model)


class Row:
    """An `nn.Sequential`: a stage is the whole row without the layers of others.

    So its parameters keep the names that they have in the whole model: a row goes by what is in it, not by numbers.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:  # noqa: ARG002
        return list(layers_of(self.model))

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """Where one tensor goes from layer to layer: of several, a stage would make several arguments.

        Layers that train nothing, such as activations, go with either stage, unless more would have to be sent for it,
        or what they compute would be another: costs are measured, and what is trained must not depend on them.
        """
        modules = [layer for _, layer in layers]
        given = [calls[name][0] for name, _ in layers]
        places = []
        for number in may_begin(modules):
            *before, _ = or_before(number, modules)
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


class Listed:
    """What the recipe's `stages()` returned: modules of which each is given what the one before it gave."""

    def __init__(self, stages: Any, recipe: str) -> None:  # noqa: ANN401 (the recipe's)
        if not isinstance(stages, (list, tuple)) or not all(isinstance(each, nn.Module) for each in stages):
            kinds = ", ".join(type(each).__name__ for each in stages) if isinstance(stages, (list, tuple)) else ""
            what = f"{type(stages).__name__} of {kinds}" if kinds else type(stages).__name__
            raise TypeError(f"stages() of {recipe} returned {what}. Return a list of torch.nn.Module, in order.")
        self.model: nn.Module = Chain({str(number): each for number, each in enumerate(stages)})
        self._layers = [(str(number), each) for number, each in enumerate(stages)]

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:  # noqa: ARG002
        return self._layers

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:  # noqa: ARG002
        """Between any two of them that learn."""
        return [[each] for each in may_begin([layer for _, layer in layers])]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:  # noqa: ARG002
        """Several of them, where there are more than devices."""
        own = _own([name for name, _ in self._layers], begins, number)
        return Chain({name: layer for name, layer in self._layers if name in own}).to(device)


class Whole:
    """Any other model: cut where a layer is called, as `torch.export` sees it compute."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def layers(self, inputs: Sequence[Tensor]) -> list[Layer]:
        return inner_layers(self.model, inputs)

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """At layers that are called once: at another there would be several cuts."""
        return [[each] for each in may_begin([layer for _, layer in layers]) if len(calls[layers[each][0]]) == 1]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:
        return traced_stage(self.model, inputs, begins[1:], number, device)


class Chain(nn.Module):
    """Modules one after the other; several outputs of one are several arguments of the next."""

    def __init__(self, members: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self._order = list(members.values())  # one may be there twice
        for name, member in members.items():
            self.add_module(name, member)

    def forward(self, *inputs: Any) -> Any:  # noqa: ANN401
        value: Any = inputs
        for member in self._order:
            value = member(*value) if isinstance(value, (tuple, list)) else member(value)
        return value


def _bytes(value: Any) -> int:  # noqa: ANN401 (whatever a layer gives)
    return sum(each.numel() * each.element_size() for each in tensors(value))


def _own(names: Sequence[str], begins: Sequence[str], number: int) -> Sequence[str]:
    """The layers of one stage."""
    ends = [*begins[1:], None]
    end = ends[number]
    return names[names.index(begins[number]) : None if end is None else names.index(end)]
