"""Where a model can be cut into stages, what its layers cost, and how a model without a sequence is traced."""

from __future__ import annotations

import contextlib
import copy
import operator
import statistics
import time
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map_only

from ...language import tr
from .model import CannotSplitError, is_sequential, layers_of, learns, split_points, tensors, with_layers_before
from .task.build import seed_everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ..recipe import LoadedRecipe
    from .model import Layer

    Autocast = AbstractContextManager[Any] | None

REPEATS = 5
"""Least number of measurements after one warm-up. The median counts."""
MIN_MEASURED_S = 0.05
"""Seconds to measure a quick layer at least: a few times would be mostly noise."""
MAX_MEASURED_S = 1.0
"""Seconds after which a slow layer is not measured again."""


class Call(NamedTuple):
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


def inner_layers(model: nn.Module, inputs: Sequence[Tensor]) -> list[Layer]:
    """Return a model's layers in the order of their calls; those of its only child, if it has only one."""
    candidates = list(_unpacked(model, ""))
    while True:
        learning = [(name, layer) for name, layer in candidates if learns(layer)]
        if len(learning) != 1 or not list(learning[0][1].children()):
            break
        name, only = learning[0]
        candidates = list(_unpacked(only, f"{name}."))
    by_name = dict(candidates)
    return [(name, by_name[name]) for name in calls(model, candidates, inputs)]


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
    # Two processes would train a copy each.
    stages = Counter(name for part in parts for name, each in part.named_parameters() if each.requires_grad)
    for name, count in stages.items():
        if count > 1:
            raise CannotSplitError(tr("{count} stages would share the parameter {name}", count=count, name=name))
    return pipe.split_gm


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
        # Validation uses the weights and running statistics that training changes.
        for name, tensor in [*self.named_parameters(), *self.named_buffers()]:
            path, _, last = name.rpartition(".")
            if name in validation.part.state_dict():
                setattr(validation.part.get_submodule(path), last, tensor)
        self._graphs = {True: training, False: validation}  # not registered: the names would occur three times

    def forward(self, *values: Tensor) -> Any:  # noqa: ANN401
        return self._graphs[self.training](*values)


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


def source(recipe: LoadedRecipe, model: nn.Module, seed: int) -> SequentialSource | ListedSource | TracedSource:
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
        """Return the layers in order. `inputs` are those of a micro-batch, on the CPU."""
        return list(layers_of(self.model))

    def allowed(self, layers: Sequence[Layer], calls: Mapping[str, Sequence[Call]]) -> list[list[int]]:
        """Return the places at which a stage may begin; for each, the numbers of the layers that may be its first.

        Only a single tensor may go from layer to layer there: a stage would unpack several. Layers without parameters,
        such as activations, may go with either stage, unless more data would have to be sent or their result would
        differ: costs are measured, and the trained model must not depend on them.
        """
        modules = [layer for _, layer in layers]
        given = [calls[name][0] for name, _ in layers]
        sizes = [sum(each.nbytes for each in tensors(call.output)) for call in given]
        places = []
        for number in split_points(modules):
            *before, _ = with_layers_before(number, modules)
            fixed = max((each + 1 for each in before if draws(modules[each], given[each])), default=0)
            free = [each for each in before if each >= fixed and sizes[each - 1] <= sizes[number - 1]]
            places.append([each for each in [*free, number] if isinstance(given[each - 1].output, Tensor)])
        return [place for place in places if place]

    def stage(self, begins: Sequence[str], number: int, inputs: Sequence[Tensor], device: torch.device) -> nn.Module:  # noqa: ARG002
        """Return one of the stages that begin at these layers, on its device. Nothing else is moved there."""
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
        self._layers = [(str(number), each) for number, each in enumerate(stages)]
        self.model: nn.Module = Chain(dict(self._layers))

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


def _own(names: Sequence[str], begins: Sequence[str], number: int) -> Sequence[str]:
    """Return the layers of one stage."""
    bounds = [*map(names.index, begins), len(names)]
    return names[bounds[number] : bounds[number + 1]]
