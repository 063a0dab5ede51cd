"""One stage of a traced model: its part of the graph, what goes into it and what comes out."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch.fx import Graph, GraphModule, Node

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


class Piece:
    """A stage of a graph. What it does not need itself but a later stage does, it hands on."""

    def __init__(
        self, part: nn.Module, reads: list[str], makes: dict[int, str], takes: list[str], gives: list[str]
    ) -> None:
        self.part = part
        self._reads, self._makes, self._takes, self._gives = reads, makes, takes, gives

    def __call__(self, *values: Tensor) -> Any:  # noqa: ANN401 (a tensor, or several)
        known = dict(zip(self._takes, values, strict=True))
        made = self.part(*[known[name] for name in self._reads])
        made = made if isinstance(made, (tuple, list)) else (made,)
        known.update({name: made[index] for index, name in self._makes.items()})
        given = tuple(known[name] for name in self._gives)
        return given[0] if len(given) == 1 else given


def piece(whole: GraphModule, number: int, device: torch.device) -> Piece:
    """One stage of a graph of stages, on its device."""
    graph = whole.graph
    stages = [node for node in graph.nodes if node.op == "call_module"]
    part = whole.get_submodule(str(stages[number].target))
    _move(part, device)
    names = _passing(graph, stages)
    return Piece(part, _read(stages[number]), _made(stages[number]), names[number], names[number + 1])


def _read(stage: Node) -> list[str]:
    """The values that a stage needs, in the order of its arguments."""
    return [each.name for each in stage.args if isinstance(each, Node)]


def _made(stage: Node) -> dict[int, str]:
    """The values that a stage makes, by their place among its outputs."""
    picked = {int(str(user.args[1])): user.name for user in stage.users if user.target is operator.getitem}
    return picked or {0: stage.name}


def _passing(graph: Graph, stages: list[Node]) -> list[list[str]]:
    """What goes into each stage and, at the end, out of the last: what is made before and used from there on."""
    made_at = {node.name: -1 for node in graph.nodes if node.op == "placeholder"}
    last_use: dict[str, int] = {}
    for number, stage in enumerate(stages):
        made_at |= dict.fromkeys(_made(stage).values(), number)
        last_use |= dict.fromkeys(_read(stage), number)
    (output,) = [node for node in graph.nodes if node.op == "output"]
    results = [each.name for each in output.all_input_nodes]
    last_use |= dict.fromkeys(results, len(stages))
    inputs = [name for name, number in made_at.items() if number < 0]
    between = [
        [name for name, made in made_at.items() if made < number <= last_use.get(name, -1)]
        for number in range(1, len(stages))
    ]
    return [inputs, *between, results]


def _move(part: nn.Module, device: torch.device) -> None:
    """To the device, and with it what the graph makes: it names the device that it was traced on."""
    part.to(device)
    for module in part.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if isinstance(graph, Graph) else ():
            if "device" in node.kwargs:
                node.update_kwarg("device", device)
        if isinstance(module, GraphModule):
            module.recompile()
