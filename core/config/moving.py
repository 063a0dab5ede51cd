"""Resume a run on other devices, or with another strategy: its spec, what prevents that, and what will differ."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.catalog import recipe_use, recipes
from core.catalog.strategies import strategy_of
from core.devices.device import split_name
from core.language import tr, tr_plural
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.checkpoint import BrokenCheckpointError
from core.schema.spec import RunSpec


def moved(run: Run, devices: Sequence[str] = (), strategy: str | None = None) -> RunSpec:
    """Return the spec of a run that is resumed on these devices and with this strategy; by default those of the run.

    Raises `ValueError` with a sentence if its checkpoints cannot be given to them. `core.config.validation` checks
    whether this machine can run the spec.
    """
    before = run.spec()
    after = replace(before, devices=tuple(devices) or before.devices, strategy=strategy or before.strategy)
    if any(split_name(name) for name in (*before.devices, *after.devices)):
        raise ValueError(
            tr("Run {id} cannot be resumed on other devices, since some are of another machine. Resume it as it is: "
               "trainyard resume {id}", id=run.id)
        )
    if after.strategy != before.strategy:
        strategy_of(after)  # raises for one that there is not
        recipe = recipes.read(Path(before.own_recipe.path))
        recipe_use.check_strategy(recipe, after.framework, after.strategy, varies=False)
    if _division(before) != _division(after) and (why := _obstacle(run.dir, before, after)):
        sentence = tr_plural(
            "Run {id} can only be resumed with strategy {strategy} on {count} device, since {why}.",
            "Run {id} can only be resumed with strategy {strategy} on {count} devices, since {why}.",
            len(before.devices), id=run.id, strategy=before.strategy, why=why,
        )
        raise ValueError(sentence)
    return after


def caution(before: RunSpec, after: RunSpec) -> str:
    """Return what will differ from the run without a pause, a sentence; the empty string if nothing will."""
    if _division(before) == _division(after):
        return ""
    return tr(
        "The curve stays that of the run without this change, within rounding. What depends on the random numbers of "
        "a device, such as dropout, or on its part of a batch, such as batch normalisation, will differ."
    )


def _division(spec: RunSpec) -> tuple[str, int]:
    """Return what decides how a training is divided."""
    return spec.strategy, len(spec.devices)


def _obstacle(run_dir: Path, before: RunSpec, after: RunSpec) -> str:
    """Return why the checkpoints of a run fit only its own division, the end of a sentence; or the empty string."""
    for each in (before, after):
        if strategy_of(each).needs_addresses:
            return tr("the processes of {strategy} open ports, and keep their part of the run", strategy=each.strategy)
    if before.training.gradient_compression == "powersgd":
        return tr("PowerSGD keeps on each device what it owes to the gradients")
    for folder in checkpoint.folders(run_dir):
        with contextlib.suppress(BrokenCheckpointError):  # the training takes the one before
            if "devices" not in checkpoint.manifest_of(folder):
                return tr("its checkpoint {name} was written by an earlier version of Trainyard", name=folder.name)
            return ""
    return ""
