"""This rank's stage of a pipeline: cut it out of the model, find its inputs and outputs, save and load it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ...language import tr
from ...schema import checkpoint
from ..training.checkpoints import first_difference
from .cuts import NOTHING, Call, calls, seconds, source, unchanged
from .distributed import broadcast_object
from .model import CannotSplitError, learns, split_evenly, too_few_parts
from .task import saver
from .task.build import autocast_of, build_loss
from .task.saver import random_states, read, set_random_states, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .cuts import Autocast, ListedSource, SequentialSource, TracedSource
    from .task.build import Task, Unplaced

    Source = SequentialSource | ListedSource | TracedSource
    """A model that can be cut between its layers."""

CUT = "cut.json"
WHOLE = ""
"""The name of the whole model among its layers."""


@dataclass(frozen=True, kw_only=True)
class StageTensors:
    """Example inputs and outputs of a stage for one micro-batch: tensors of the right shapes."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The part of the model that one rank trains."""

    module: nn.Module
    """The stage, on its device."""
    begins: tuple[str, ...]
    """The first layer of each stage."""
    names: dict[str, str]
    """From names in the module's state_dict to names in the whole model's. A traced stage has constants besides."""
    training: StageTensors
    validation: StageTensors


def build_stage(recipe: LoadedRecipe, context: Context, raw: Unplaced, items: int) -> Stage:
    """Cut the model for micro-batches of `items` items, where rank 0 decides, and keep this rank's stage.

    Raises `ValueError` for a model that cannot be cut into as many stages as there are ranks.
    """
    first, autocast = context.rank == 0, autocast_of(context, raw.device)
    sample = broadcast_object(0, _sample(raw, items) if first else None, raw.device)
    inputs = sample[:-1]
    origin = source(recipe, raw.model, context.training.seed)
    names = full_names(origin.model, raw.model)
    try:
        begins = broadcast_object(
            0, _cut(origin, _LossLayer(recipe, raw.device), context, raw, sample) if first else None, raw.device
        )
        _check(begins, origin.model)
        module: nn.Module = DenseStage(origin.stage(begins, context.rank, inputs, raw.device), autocast)
        training, validation = (stage_tensors(module.train(mode), inputs, raw.device) for mode in (True, False))
    except CannotSplitError as error:
        raise ValueError(
            tr(
                "The model of {recipe} cannot be cut into {stages} stages because {error}. Tick fewer devices, or give "
                "the recipe a function stages(), which returns a list of modules. Each gets the output of the one "
                "before.",
                recipe=recipe.name,
                stages=context.world_size,
                error=error,
            )
        ) from error
    own = {name: name.removeprefix(DenseStage.PREFIX) for name in module.state_dict()}
    names = {name: names[inner] for name, inner in own.items() if inner in names}
    return Stage(module=module, begins=begins, names=names, training=training, validation=validation)


def _sample(raw: Unplaced, items: int) -> list[Tensor]:
    """Return a first micro-batch on the CPU: inputs first, target last."""
    states = random_states()  # a dataset may draw random numbers
    (batch,) = next(iter(raw.train.in_order()))
    set_random_states(states)
    return [each[:items].cpu() for each in (*batch.inputs, batch.target)]


def _cut(
    origin: Source, loss: _LossLayer, context: Context, raw: Unplaced, sample: Sequence[Tensor]
) -> tuple[str, ...]:
    """Return the first layer of each stage: as in this run's checkpoints, else so that all stages take equally long."""
    stored = _stored_cut(context)
    if stored is not None:
        return stored
    (*inputs, target), autocast = sample, autocast_of(context, raw.device)
    layers = origin.layers(inputs)
    seen = calls(origin.model, [(WHOLE, origin.model), *layers], inputs)
    allowed = origin.allowed(layers, seen)
    first = next((number for number, (_, layer) in enumerate(layers) if learns(layer)), 0)
    nothing = seconds(nn.Identity(), NOTHING, raw.device, autocast)  # the time of a pass without a layer
    costs = [
        len(seen[name]) * max(0.0, seconds(layer, seen[name][0], raw.device, autocast, first=number <= first) - nothing)
        for number, (name, layer) in enumerate(layers)
    ]
    if costs:
        loss_call = Call((seen[WHOLE][0].output, target), {}, None)
        costs[-1] += max(0.0, seconds(loss, loss_call, raw.device, autocast) - nothing)
    begins = split_evenly(costs, allowed, context.world_size)
    if begins is None:
        raise CannotSplitError(too_few_parts(allowed))
    return tuple(layers[each][0] for each in begins)


class _LossLayer(nn.Module):
    """The loss as a layer: the last stage computes it, too."""

    def __init__(self, recipe: LoadedRecipe, device: torch.device) -> None:
        super().__init__()
        states = random_states()  # the loss is built again for training
        self._loss = build_loss(recipe, device)
        set_random_states(states)

    def forward(self, output: Any, target: Tensor) -> Tensor:  # noqa: ANN401 (whatever the model gives)
        return self._loss(output, target)


def _stored_cut(context: Context) -> tuple[str, ...] | None:
    """Return the last cut into so many stages in this run's checkpoints; None without one."""
    every = map(_cut_of, checkpoint.folders(context.run_dir))
    return next((each for each in every if each and len(each) == context.world_size), None)


def _cut_of(folder: Path) -> tuple[str, ...] | None:
    with contextlib.suppress(OSError, ValueError):  # of another strategy, or broken: `CheckpointStore` reports it
        return tuple(json.loads((folder / CUT).read_text(encoding="utf-8")))
    return None


def _check(begins: Sequence[str], model: nn.Module) -> None:
    """Raise `CannotSplitError` if this is the cut of another model."""
    known = dict(model.named_modules())
    for name in begins:
        if name not in known:
            raise CannotSplitError(
                tr("the checkpoints of this run divide it at {name}, and it has no layer of that name", name=name)
            )


class DenseStage(nn.Module):
    """A stage whose outputs are contiguous in memory, as sending requires.

    Gradients need no such care: the gradient of a leaf has the leaf's layout.
    """

    PREFIX = "stage."

    def __init__(self, stage: nn.Module, autocast: Autocast) -> None:
        super().__init__()
        self.stage, self._autocast = stage, autocast
        self._in_place = any(getattr(layer, "inplace", False) for layer in stage.modules())

    def __call__(self, *inputs: Tensor) -> Any:  # noqa: ANN401
        """Call the compiled forward, if there is one. Skip hooks, which cannot be set here: each call would pay."""
        compiled = self._compiled_call_impl
        return self.forward(*inputs) if compiled is None else compiled(*inputs)

    def forward(self, *inputs: Tensor) -> Any:  # noqa: ANN401
        if self._in_place:  # a received tensor is a leaf, and no layer may write into it
            inputs = tuple(each.clone() if each.requires_grad else each for each in inputs)
        if self._autocast is None:
            outputs = self.stage(*inputs)
        else:
            with self._autocast:
                outputs = self.stage(*inputs)
        if isinstance(outputs, Tensor):
            return outputs.contiguous()
        return tree_map_only(Tensor, Tensor.contiguous, outputs)


def stage_tensors(module: nn.Module, inputs: Sequence[Tensor], device: torch.device) -> StageTensors:
    """Run each rank's stage once, in turn, on zeros of the shapes that the stage before has returned."""
    own, shapes, found = dist.get_rank(), [_shape(each) for each in inputs], None
    for rank in range(dist.get_world_size()):
        if rank == own:
            given = [torch.zeros(size, dtype=dtype, device=device, requires_grad=grad) for size, dtype, grad in shapes]
            outputs = _outputs(module, given, own)
            found = StageTensors(inputs=tuple(given), outputs=tuple(outputs))
            shapes = [_shape(each) for each in outputs]
        shapes = broadcast_object(rank, shapes, device)
    assert found is not None
    return found


def _outputs(module: nn.Module, inputs: Sequence[Tensor], rank: int) -> list[Tensor]:
    with unchanged(module), torch.enable_grad():
        output = module(*inputs)
    outputs = [output] if isinstance(output, Tensor) else output
    if not isinstance(outputs, (tuple, list)) or not all(isinstance(each, Tensor) for each in outputs):
        raise CannotSplitError(
            tr(
                "stage {rank} returns a {kind}, not a tensor or a tuple of tensors",
                rank=rank,
                kind=type(output).__name__,
            )
        )
    return [each.detach().requires_grad_(each.requires_grad) for each in outputs]


def _shape(tensor: Tensor) -> tuple[torch.Size, torch.dtype, bool]:
    return tensor.shape, tensor.dtype, tensor.requires_grad


def full_names(own: nn.Module, whole: nn.Module) -> dict[str, str]:
    """Return the name in the whole model of each tensor of `own`, if both models hold equal tensors; else its own name.

    The same seed makes the same weights, so tensors are matched by content. Among equal ones, such as biases of zeros,
    the longest common end of the names decides: `1.blocks.2.norm.bias` is `blocks.2.norm.bias`.
    """
    mine, theirs = own.state_dict(), whole.state_dict()
    if own is whole:
        return {name: name for name in mine}
    found: dict[str, str] = {}
    for name, tensor in mine.items():
        alike = sorted(theirs, key=partial(_common_end, name), reverse=True)
        same = next((other for other in alike if _is_same(tensor, theirs[other])), None)
        if same is None:
            break
        found[name] = same
        del theirs[same]
    return found if len(found) == len(mine) and not theirs else {name: name for name in mine}


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _common_end(one: str, other: str) -> int:
    """Return how many parts of two names are equal, counted from the end."""
    pairs = zip(reversed(one.split(".")), reversed(other.split(".")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class StageWeights:
    """Saves this rank's stage under the whole model's names; rank 0 adds where the model was cut."""

    def __init__(self, stage: Stage, task: Task, context: Context) -> None:
        self._stage, self._optimizer, self._rank = stage, task.optimizer, context.rank

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        held = self._stage.module.state_dict()
        state = {full: held[name] for name, full in self._stage.names.items()}
        write(folder / f"model-{self._rank}.pt", state)
        write(folder / f"optimizer-{self._rank}.pt", saver.state_with_names(self._optimizer, self._named()))
        if self._rank == 0:
            (folder / CUT).write_text(json.dumps(self._stage.begins) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        names, module = self._stage.names, self._stage.module
        held = module.state_dict()
        wanted = {full: held[name].shape for name, full in names.items()}
        is_own = _cut_of(folder) == self._stage.begins
        state = read(folder / f"model-{self._rank}.pt") if is_own else saver.model_state(folder)
        state = {name: each for name, each in state.items() if is_own or name in wanted}
        if fault := first_difference({name: each.shape for name, each in state.items()}, wanted):
            raise ValueError(fault)
        module.load_state_dict({**held, **{name: state[full] for name, full in names.items()}})
        if is_own:
            found = read(folder / f"optimizer-{self._rank}.pt")
        else:
            found = saver.by_number(saver.optimizer_by_name(folder), self._optimizer, self._named())
        self._optimizer.load_state_dict(found)

    def _named(self) -> dict[str, nn.Parameter]:
        """Return the stage's parameters by their names in the whole model."""
        names = self._stage.names
        return {names.get(name, name): each for name, each in self._stage.module.named_parameters()}
