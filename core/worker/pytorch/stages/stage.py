"""This rank's stage of a pipeline: where the model is cut, what the stage keeps, what goes in and comes out."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from ....schema import checkpoint
from .._build import autocast_of, build_loss
from .._ranks import told_by
from .._saver import random_states, set_random_states
from .cost import NOTHING, Call, calls, seconds
from .crossing import Crossed, Crossing, crossing
from .cut import Uncuttable, evenly
from .names import full_names
from .sources import Source, source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from ...context import Context
    from ...recipe import LoadedRecipe
    from .._build import Raw

CUT = "cut.json"
WHOLE = ""  # the whole model, beside its layers


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What one rank trains."""

    module: nn.Module
    """On its device."""
    begins: tuple[str, ...]
    """The first layer of each stage."""
    names: dict[str, str]
    """Those in the module's state_dict, and what they are in the whole model's; a traced one has constants besides."""
    training: Crossing
    validation: Crossing


def own_stage(recipe: LoadedRecipe, context: Context, raw: Raw, items: int) -> Stage:
    """Cut the model, as all ranks agree, for micro-batches of so many items; keep what is this rank's.

    Raises `ValueError` with a sentence for a model that cannot be cut into as many stages as there are ranks.
    """
    first, autocast = context.rank == 0, autocast_of(context, raw.device)
    sample = told_by(0, _sample(raw, items) if first else None, raw.device)
    inputs = sample[:-1]
    origin = source(recipe, raw.model, context.training.seed)
    names = full_names(origin.model, raw.model)
    try:
        begins = told_by(
            0, _cut(origin, _Judge(recipe, raw.device), context, raw, sample) if first else None, raw.device
        )
        _check(begins, origin.model)
        module: nn.Module = Crossed(origin.stage(begins, context.rank, inputs, raw.device), autocast)
        training, validation = (crossing(module.train(mode), inputs, raw.device) for mode in (True, False))
    except Uncuttable as error:
        raise ValueError(_cannot(recipe, context.world_size, error)) from error
    own = {name: name.removeprefix(Crossed.PREFIX) for name in module.state_dict()}
    names = {name: names[inner] for name, inner in own.items() if inner in names}
    return Stage(module=module, begins=begins, names=names, training=training, validation=validation)


def _sample(raw: Raw, items: int) -> list[Tensor]:
    """A first micro-batch, on the CPU: inputs first, target last."""
    states = random_states()  # a dataset may draw
    (batch,) = next(iter(raw.train.in_order()))
    set_random_states(states)
    return [each[:items].cpu() for each in (*batch.inputs, batch.target)]


def _cut(origin: Source, judge: _Judge, context: Context, raw: Raw, sample: Sequence[Tensor]) -> tuple[str, ...]:
    """The first layer of each stage: as in the checkpoints of this run, else so that all take as long."""
    stored = _stored_cut(context)
    if stored is not None:
        return stored
    (*inputs, target), autocast = sample, autocast_of(context, raw.device)
    layers = origin.layers(inputs)
    seen = calls(origin.model, [(WHOLE, origin.model), *layers], inputs)
    allowed = origin.allowed(layers, seen)
    first = next((number for number, (_, layer) in enumerate(layers) if _learns(layer)), 0)
    nothing = seconds(nn.Identity(), NOTHING, raw.device, autocast)  # what is no work of the layer itself
    costs = [
        len(seen[name]) * max(0.0, seconds(layer, seen[name][0], raw.device, autocast, first=number <= first) - nothing)
        for number, (name, layer) in enumerate(layers)
    ]
    if costs:
        judged = Call((seen[WHOLE][0].output, target), {}, None)
        costs[-1] += max(0.0, seconds(judge, judged, raw.device, autocast) - nothing)
    begins = evenly(costs, allowed, context.world_size)
    if begins is None:
        raise Uncuttable(
            f"it has no more than {len(allowed) + 1} part(s) with parameters to train, one after the other"
        )
    return tuple(layers[each][0] for each in begins)


class _Judge(nn.Module):
    """The loss as a layer: the last stage has it to compute, too."""

    def __init__(self, recipe: LoadedRecipe, device: torch.device) -> None:
        super().__init__()
        states = random_states()  # it is built once more for training
        self._loss = build_loss(recipe, device)
        set_random_states(states)

    def forward(self, output: Any, target: Tensor) -> Tensor:  # noqa: ANN401 (whatever the model gives)
        return self._loss(output, target)


def _learns(layer: nn.Module) -> bool:
    return any(each.requires_grad for each in layer.parameters())


def _stored_cut(context: Context) -> tuple[str, ...] | None:
    """All checkpoints of a run have the same."""
    for folder in checkpoint.folders(context.run_dir):
        with contextlib.suppress(OSError, ValueError):  # broken: `Shelf` tells of it
            return tuple(json.loads((folder / CUT).read_text(encoding="utf-8")))
    return None


def _check(begins: Sequence[str], model: nn.Module) -> None:
    """Raises `Uncuttable` when this is the cut of another model."""
    known = dict(model.named_modules())
    for name in begins:
        if name not in known:
            raise Uncuttable(f"the checkpoints of this run were cut at {name}, which it does not have")


def _cannot(recipe: LoadedRecipe, stages: int, error: Uncuttable) -> str:
    return (
        f"The model of {recipe.name} cannot be cut into {stages} stages because {error}. Tick fewer devices, or give "
        "the recipe a function stages(), which returns a list of modules, each given what the one before it gave."
    )
