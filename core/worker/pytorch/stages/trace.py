"""Trace a model that is no sequence of layers with `torch.export`, and cut it into stages."""

from __future__ import annotations

import copy
import operator
import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.fx import Graph, GraphModule, Node

from ....language import tr
from ..model.placing import CannotSplitError, is_sequential
from .cost import calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from ..model.placing import Layer


def inner_layers(model: nn.Module, inputs: Sequence[Tensor]) -> list[Layer]:
    """Return a model's layers in the order of their calls; those of its only child, if it has only one."""
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
    """Yield a model's children; for a list or sequence, which only holds layers, its children instead."""
    for name, child in model.named_children():
        if is_sequential(child) or isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _unpacked(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


def traced_stage(
    model: nn.Module, inputs: Sequence[Tensor], begins: Sequence[str], number: int, device: torch.device
) -> nn.Module:
    """Return one stage. All stages but the first begin at the layers `begins`. Raises `CannotSplitError`.

    The model is traced twice, for training and for validation: dropout and the like are part of a trace.
    """
    tensors = [*model.parameters(), *model.buffers()]
    validated = copy.deepcopy(model, {id(each): each for each in tensors}).eval()
    training_graph, validation_graph = (_cut(each, inputs, begins) for each in (model, validated))
    return TracedStage(graph_stage(training_graph, number, device), graph_stage(validation_graph, number, device))


def _cut(model: nn.Module, inputs: Sequence[Tensor], begins: Sequence[str]) -> GraphModule:
    """Trace the model and return it as a graph of stages."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.export warns about itself
            pipe = pipeline(model, tuple(inputs), split_spec=dict.fromkeys(begins, SplitPoint.BEGINNING))
    except Exception as error:  # (whatever a user's model raises when it is traced)
        cause = error.__cause__ or error  # the pipeline's own message is long and not about this model
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise CannotSplitError(tr("torch.export cannot trace it ({error})", error=first_line.rstrip("."))) from error
    if pipe.num_stages != len(begins) + 1:
        raise CannotSplitError(tr("its layers {names} are not called one after the other", names=", ".join(begins)))
    parts = [pipe.get_stage_module(number) for number in range(pipe.num_stages)]
    for name, uses in _uses(parts).items():
        if uses > 1:
            raise CannotSplitError(tr("{count} stages would share the parameter {name}", count=uses, name=name))
    return pipe.split_gm


def _uses(parts: Sequence[nn.Module]) -> dict[str, int]:
    """Return how many stages use each parameter: two processes would train a copy each."""
    uses: dict[str, int] = {}
    for part in parts:
        uses |= {name: uses.get(name, 0) + 1 for name, each in part.named_parameters() if each.requires_grad}
    return uses


class TracedStage(nn.Module):
    """One stage. Its parameters have their names in the whole model."""

    def __init__(self, training: GraphStage, validation: GraphStage) -> None:
        super().__init__()
        for name, child in training.part.named_children():
            self.add_module(name, child)
        for name, parameter in training.part.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in training.part.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        _share(self, validation.part)
        self._graphs = {True: training, False: validation}  # not registered: the names would occur three times

    def forward(self, *values: Tensor) -> Any:  # noqa: ANN401
        return self._graphs[self.training](*values)


def _share(training: nn.Module, validation: nn.Module) -> None:
    """Let validation use the weights and running statistics that training changes."""
    for name, tensor in [*training.named_parameters(), *training.named_buffers()]:
        path, _, last = name.rpartition(".")
        if name in validation.state_dict():
            setattr(validation.get_submodule(path), last, tensor)


class GraphStage:
    """A stage of a graph. It passes on the values that only later stages need."""

    def __init__(
        self, part: nn.Module, reads: list[str], makes: dict[int, str], inputs: list[str], outputs: list[str]
    ) -> None:
        self.part = part
        self._reads, self._makes, self._inputs, self._outputs = reads, makes, inputs, outputs

    def __call__(self, *values: Tensor) -> Any:  # noqa: ANN401 (a tensor, or several)
        known = dict(zip(self._inputs, values, strict=True))
        made = self.part(*[known[name] for name in self._reads])
        made = made if isinstance(made, (tuple, list)) else (made,)
        known.update({name: made[index] for index, name in self._makes.items()})
        outputs = tuple(known[name] for name in self._outputs)
        return outputs[0] if len(outputs) == 1 else outputs


def graph_stage(whole: GraphModule, number: int, device: torch.device) -> GraphStage:
    """Return one stage of a graph of stages, on its device."""
    graph = whole.graph
    stages = [node for node in graph.nodes if node.op == "call_module"]
    part = whole.get_submodule(str(stages[number].target))
    _move(part, device)
    names = _passing(graph, stages)
    return GraphStage(part, _read(stages[number]), _made(stages[number]), names[number], names[number + 1])


def _read(stage: Node) -> list[str]:
    """Return the values that a stage reads, in the order of its arguments."""
    return [each.name for each in stage.args if isinstance(each, Node)]


def _made(stage: Node) -> dict[int, str]:
    """Return the values that a stage makes, by their position among its outputs."""
    picked = {int(str(user.args[1])): user.name for user in stage.users if user.target is operator.getitem}
    return picked or {0: stage.name}


def _passing(graph: Graph, stages: list[Node]) -> list[list[str]]:
    """Return the inputs of each stage, and last the outputs of the last: values made before and used from there on."""
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
    """Move a stage and the tensors that its graph creates: the graph names the device of the trace."""
    part.to(device)
    for module in part.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if isinstance(graph, Graph) else ():
            if "device" in node.kwargs:
                node.update_kwarg("device", device)
        if isinstance(module, GraphModule):
            module.recompile()
