"""From choices, as a person makes them, to a `RunSpec`: the same for the window and the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core import catalog, recipes
from core.interpreters import interpreter
from core.spec import DEFAULT_LEARNING_RATE, Checkpoints, ReleaseWatch, RunSpec, Training

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.devices.device import Device
    from core.spec import SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person chose. None leaves a choice to its documented default."""

    recipe: str
    """A built-in name or a file."""
    devices: tuple[str, ...]
    """Ids, or labels such as `gpu:0`, in the order of ranks."""
    framework: str = "pytorch"
    strategy: str | None = None
    name: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    training: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Training` that differ from their defaults."""
    checkpoints: Mapping[str, object] = field(default_factory=dict)
    """Fields of `Checkpoints` that differ from their defaults."""
    release: Mapping[str, object] = field(default_factory=dict)
    """Fields of `ReleaseWatch` that differ from their defaults."""
    cuda_ids: str = "uuid"


def compose(choices: Choices, devices: Sequence[Device]) -> RunSpec:
    """The spec these choices make. Raises `ValueError` with a sentence for one that cannot be.

    Whether this machine can run it is another question: `catalog.problems` answers it.
    """
    row = catalog.framework(choices.framework)
    recipe = recipes.find(choices.recipe, choices.framework)
    recipe.check_framework(row)
    wanted = dict(choices.training)
    if wanted.get("learning_rate") is None:
        wanted["learning_rate"] = default_learning_rate(recipe)
    return RunSpec(
        name=choices.name or recipe.name,
        framework=choices.framework,
        strategy=choices.strategy or catalog.default_strategy(choices.framework, len(choices.devices)),
        recipe=recipe.with_settings(choices.settings),
        devices=tuple(resolve(choices.devices, devices)),
        training=Training(**wanted),  # type: ignore[arg-type]  # Training checks each field itself
        checkpoints=Checkpoints(**choices.checkpoints),  # type: ignore[arg-type]  # so does this
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]  # and this
        cuda_ids=choices.cuda_ids,
        python=interpreter(row),
        working_dir=_working_dir(),
    )


def _working_dir() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (a string is what is kept)
    except OSError:
        raise ValueError(
            "The folder you are in has been removed. Change to another, where training is to run."
        ) from None


def default_learning_rate(recipe: recipes.RecipeFile) -> float | None:
    """The recipe's own; None where its optimizer keeps that to itself."""
    return recipe.learning_rate if "optimizer" in recipe.functions else DEFAULT_LEARNING_RATE


def resolve(names: Iterable[str], devices: Sequence[Device]) -> list[str]:
    """Device ids for names: an id stands for itself, `gpu:0` for the device labelled `GPU 0`."""
    labels = {device.short_name: device.id for device in devices}
    return [labels.get(name.lower(), name) for name in names]
