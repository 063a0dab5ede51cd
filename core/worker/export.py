"""Export a trained model in a process of its own: write the model, its recipe and settings, and answer in JSON."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..language import join_sentences, stored, tr, tr_noop
from ..schema import checkpoint
from ..schema.files import FULL
from ..schema.spec import read_spec
from .boot import start_dead_man_switch
from .recipe import LoadedRecipe

if TYPE_CHECKING:
    from types import ModuleType

    from ..schema.checkpoint import TrainingPosition
    from ..schema.spec import RunSpec

PACKAGES = {"pytorch": "pytorch", "tensorflow": "keras", "keras": "keras"}
"""The package that exports a framework's models. TensorFlow and Keras both train Keras models."""
GONE = tr_noop(
    "Checkpoint {checkpoint} was replaced by newer ones before it could be read. Export again, or pause the run first."
)
"""An active run keeps only its last checkpoints, and a framework takes seconds to load."""
MIN_BYTES = 64 * 1024
"""A disk with fewer free bytes counts as full."""
RECIPE, SETTINGS = "recipe.py", "settings.json"


def main(request_json: str) -> int:
    """Run the export that the JSON request describes, write the answer file and return the exit code."""
    start_dead_man_switch()
    request = json.loads(request_json)
    answer = Path(request["answer"])
    try:
        reply = _export(request)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the outer border: user code may raise anything)
        traceback.print_exception(error)
        source = Path(request["checkpoint"])
        sentence = _sentence(error) if source.exists() else tr(GONE, checkpoint=source.name)
        reply = {"error": stored(sentence), "full": _is_full(Path(request["folder"]), error)}
    answer.write_text(json.dumps(reply), encoding="utf-8")
    return 1 if "error" in reply else 0


def _export(request: dict[str, Any]) -> dict[str, Any]:
    run_dir, source, folder = (Path(request[name]) for name in ("run_dir", "checkpoint", "folder"))
    spec = read_spec(run_dir)
    position = checkpoint.read(source)
    exporter = importlib.import_module(f".{PACKAGES[spec.framework]}.export", package=__package__)
    sys.dont_write_bytecode = True  # of code that TensorFlow generates in the temporary folder, see `main`
    recipe = LoadedRecipe(spec, run_dir)
    exporter.export(recipe, source, folder, request["format"])
    _write_bundle(recipe, spec, position, source.name, folder)
    return {"step": position.step}


def _is_full(folder: Path, error: BaseException) -> bool:
    """Return whether the error's cause is a full disk, which frameworks report in different ways or not at all."""
    if isinstance(error, OSError):
        return error.errno in FULL
    probe = folder / ".probe"
    try:
        with probe.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, MIN_BYTES)
    except OSError as refused:
        return refused.errno in FULL
    finally:
        probe.unlink(missing_ok=True)
    return False


def _sentence(error: BaseException) -> str:
    text: str = str(error)  # a `Message`, which can be translated, unless it has to be cut
    if text != text.strip() or "\n" in text or not text:
        text = text.strip().partition("\n")[0] or type(error).__name__
    sentence = text if isinstance(error, (ValueError, OSError)) else join_sentences([f"{type(error).__name__}:", text])
    return sentence if sentence.endswith((".", "!", "?")) else tr("{phrase}.", phrase=sentence)


def _write_bundle(
    recipe: LoadedRecipe, spec: RunSpec, position: TrainingPosition, checkpoint: str, folder: Path
) -> None:
    """Write the recipe, the modules that it imports from its folder, and the settings. Other files are left out."""
    source = Path(spec.own_recipe.path)
    shutil.copyfile(source, folder / RECIPE)
    for name, module in _neighbours(source.parent):
        if Path(str(module.__file__)) != source:
            _copy_module(name, module, folder)
    facts: dict[str, Any] = {
        "recipe": spec.own_recipe.name, "framework": spec.framework, "strategy": spec.strategy,
        "checkpoint": checkpoint, "step": position.step, "epoch": position.epoch, "model": recipe.settings_of("model"),
        "settings": dict(spec.own_recipe.settings), "training": asdict(spec.training),
    }
    (folder / SETTINGS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _neighbours(home: Path) -> list[tuple[str, ModuleType]]:
    """Return the modules that the recipe imported from its own folder, with their submodules."""
    loaded = [(name, module) for name, module in sys.modules.items() if getattr(module, "__file__", None)]
    own = {name for name, module in loaded if "." not in name and _is_in(home, module)}
    return [(name, module) for name, module in loaded if name.partition(".")[0] in own]


def _is_in(home: Path, module: ModuleType) -> bool:
    file = Path(str(module.__file__))
    return file.suffix == ".py" and (file.parent == home or (file.name == "__init__.py" and file.parent.parent == home))


def _copy_module(name: str, module: ModuleType, folder: Path) -> None:
    """Copy a module under the name by which it is imported; a package's own code goes into its `__init__.py`."""
    source, target = Path(str(module.__file__)), folder.joinpath(*name.split("."))
    target = target / "__init__.py" if hasattr(module, "__path__") else target.with_suffix(".py")
    if source.suffix == ".py" and target != folder / RECIPE:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
