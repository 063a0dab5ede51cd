"""A model as `torch.export` sees it compute, cut into stages: for models that are no row of layers."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.distributed.pipelining import SplitPoint, pipeline

from .cost import calls
from .cut import Uncuttable, is_row
from .graph import Piece, piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch.fx import GraphModule

    from .cut import Layer


def inner_layers(model: nn.Module, inputs: Sequence[Tensor]) -> list[Layer]:
    """The layers of a model in the order in which it calls them; those of its only child, where it has no more."""
    candidates = list(_unpacked(model, ""))
    learning = [layer for layer in candidates if any(each.requires_grad for each in layer[1].parameters())]
    while len(learning) == 1 and any(True for _ in learning[0][1].children()):
        name, only = learning[0]
        candidates = list(_unpacked(only, f"{name}."))
        learning = [layer for layer in candidates if any(each.requires_grad for each in layer[1].parameters())]
    called = calls(model, candidates, inputs)
    by_name = dict(candidates)
    return [(name, by_name[name]) for name in called]


def _unpacked(model: nn.Module, prefix: str) -> Iterator[Layer]:
    """Its children; of lists and rows, which are only there to hold them, the children of these."""
    for name, child in model.named_children():
        if is_row(child) or isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _unpacked(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


def traced_stage(
    model: nn.Module, inputs: Sequence[Tensor], begins: Sequence[str], number: int, device: torch.device
) -> nn.Module:
    """One of the stages, of which all but the first begin at these layers. Raises `Uncuttable`.

    The model is traced as it trains and as it is validated: dropout and the like are part of what is traced.
    """
    tensors = [*model.parameters(), *model.buffers()]
    still = copy.deepcopy(model, {id(each): each for each in tensors}).eval()
    learning_graph, still_graph = (_cut(each, inputs, begins) for each in (model, still))
    return Traced(piece(learning_graph, number, device), piece(still_graph, number, device))


def _cut(model: nn.Module, inputs: Sequence[Tensor], begins: Sequence[str]) -> GraphModule:
    """The model as a graph of stages."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch.export, on itself
            pipe = pipeline(model, tuple(inputs), split_spec=dict.fromkeys(begins, SplitPoint.BEGINNING))
    except Exception as error:  # (whatever a model of the user's raises when it is traced)
        cause = error.__cause__ or error  # the pipeline's own words are many, and not on this model
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise Uncuttable(f"torch.export cannot trace it ({first_line.rstrip('.')})") from error
    if pipe.num_stages != len(begins) + 1:
        raise Uncuttable(f"its layers {', '.join(begins)} are not called one after the other")
    parts = [pipe.get_stage_module(number) for number in range(pipe.num_stages)]
    for name, uses in _uses(parts).items():
        if uses > 1:
            raise Uncuttable(f"{uses} stages would use {name}")
    return pipe.split_gm


def _uses(parts: Sequence[nn.Module]) -> dict[str, int]:
    """How many stages use each parameter: two processes would have one each, and train them apart."""
    uses: dict[str, int] = {}
    for part in parts:
        uses |= {name: uses.get(name, 0) + 1 for name, each in part.named_parameters() if each.requires_grad}
    return uses


class Traced(nn.Module):
    """One stage, with the names that its parameters have in the whole model."""

    def __init__(self, learning: Piece, still: Piece) -> None:
        super().__init__()
        for name, child in learning.part.named_children():
            self.add_module(name, child)
        for name, parameter in learning.part.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in learning.part.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        _share(self, still.part)
        self._pieces = {True: learning, False: still}  # no modules of this one: the names would be there thrice

    def forward(self, *values: Tensor) -> Any:  # noqa: ANN401
        return self._pieces[self.training](*values)


def _share(learning: nn.Module, still: nn.Module) -> None:
    """Validation sees the weights and running statistics that training changes."""
    for name, tensor in [*learning.named_parameters(), *learning.named_buffers()]:
        path, _, last = name.rpartition(".")
        if name in still.state_dict():
            setattr(still.get_submodule(path), last, tensor)
