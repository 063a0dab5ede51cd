"""What lies beside an exported model: the recipe with its neighbours, and the settings that it was built with.

Not its data, which may be many: only what the recipe needs to be imported is here.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schema.settings import RUN_KEYWORDS

if TYPE_CHECKING:
    from types import ModuleType

    from ..schema.checkpoint import TrainingPosition
    from ..schema.spec import RunSpec
    from .recipe import LoadedRecipe

RECIPE, SETTINGS = "recipe.py", "settings.json"


def write(recipe: LoadedRecipe, spec: RunSpec, stand: TrainingPosition, checkpoint: str, folder: Path) -> None:
    """Put recipe and settings into `folder`."""
    source = Path(spec.own_recipe.path)
    shutil.copyfile(source, folder / RECIPE)
    for name, module in _neighbours(source.parent):
        if Path(str(module.__file__)) != source:
            _copy(name, module, folder)
    facts: dict[str, Any] = {
        "recipe": spec.own_recipe.name, "framework": spec.framework, "strategy": spec.strategy,
        "checkpoint": checkpoint, "step": stand.step, "epoch": stand.epoch, "model": _arguments(recipe, spec),
        "settings": dict(spec.own_recipe.settings), "training": asdict(spec.training),
    }  # fmt: skip
    (folder / SETTINGS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _arguments(recipe: LoadedRecipe, spec: RunSpec) -> dict[str, Any]:
    """What the recipe's `model` was called with."""
    of_run = {name: getattr(spec.training, name) for name in RUN_KEYWORDS}
    values = {**spec.own_recipe.settings, **{name: value for name, value in of_run.items() if value is not None}}
    return {name: value for name, value in values.items() if recipe.takes("model", name)}


def _neighbours(home: Path) -> list[tuple[str, ModuleType]]:
    """The modules of the recipe's own folder that it imported, with what is inside them."""
    loaded = [(name, module) for name, module in sys.modules.items() if getattr(module, "__file__", None)]
    own = {name for name, module in loaded if "." not in name and _is_in(home, module)}
    return [(name, module) for name, module in loaded if name.partition(".")[0] in own]


def _is_in(home: Path, module: ModuleType) -> bool:
    file = Path(str(module.__file__))
    return file.suffix == ".py" and (file.parent == home or (file.name == "__init__.py" and file.parent.parent == home))


def _copy(name: str, module: ModuleType, folder: Path) -> None:
    """Under the name by which it is imported: a package's own code into its `__init__.py`."""
    source, target = Path(str(module.__file__)), folder.joinpath(*name.split("."))
    target = target / "__init__.py" if hasattr(module, "__path__") else target.with_suffix(".py")
    if source.suffix == ".py" and target != folder / RECIPE:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
