"""A PyTorch model for use elsewhere: a pure state_dict, and a few lines that rebuild the model and load it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ._saver import MODEL, another_model, read

if TYPE_CHECKING:
    from pathlib import Path

    from ..recipe import LoadedRecipe

LOAD = '''\
"""The trained model, rebuilt and loaded: `python load.py`, or `from load import model`. Needs torch alone.

The recipe is beside it for its model; the data that it trained on are not.
"""

import json
import sys
from pathlib import Path

import torch

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))
import recipe  # noqa: E402

facts = json.loads((here / "settings.json").read_text(encoding="utf-8"))
model = recipe.model(**facts["model"])
model.load_state_dict(torch.load(here / "model.pt", map_location="cpu", weights_only=True))
model.eval()

if __name__ == "__main__":
    print(model)
'''


def export(recipe: LoadedRecipe, checkpoint: Path, folder: Path, format_name: str) -> None:
    """Write `model.pt` and `load.py`. Raises `ValueError` with a sentence when the weights are another model's."""
    assert format_name == "state_dict", format_name
    weights = state_dict(checkpoint)
    model = recipe.call("model")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model() of {recipe.name} returned {type(model).__name__}. Return a torch.nn.Module.")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(another_model(checkpoint, error)) from error
    torch.save(weights, folder / MODEL)
    (folder / "load.py").write_text(LOAD, encoding="utf-8")


def state_dict(checkpoint: Path) -> dict[str, Any]:
    """The whole model's weights: of one file, or united from those of the ranks that had a part of it each."""
    whole = checkpoint / MODEL
    if whole.exists():
        return dict(read(whole))
    parts = [path for path in sorted(checkpoint.glob("model-*.pt")) if re.fullmatch(r"model-\d+\.pt", path.name)]
    if not parts:
        raise ValueError(f"Checkpoint {checkpoint.name} holds no weights of a whole model.")
    weights: dict[str, Any] = {}
    for path in parts:
        weights.update(read(path))
    return weights
