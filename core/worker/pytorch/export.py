"""Export a PyTorch model: a plain state_dict, and a script that rebuilds the model and loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ...language import tr
from ..recipe import wrong_return
from .task.saver import MODEL, does_not_fit, model_state

if TYPE_CHECKING:
    from pathlib import Path

    from ..recipe import LoadedRecipe

LOAD = '''\
"""Rebuild and load the trained model: `python load.py`, or `from load import model`. Needs only torch.

The recipe in this folder defines the model. The training data are not included.
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
    """Write `model.pt` and `load.py`. Raises `ValueError` if the weights are of another model."""
    assert format_name == "state_dict", format_name
    weights = dict(model_state(checkpoint))
    model = recipe.call("model")
    if not isinstance(model, nn.Module):
        raise wrong_return("model", recipe, model, tr("Return a torch.nn.Module."))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise does_not_fit(checkpoint, error) from error
    torch.save(weights, folder / MODEL)
    (folder / "load.py").write_text(LOAD, encoding="utf-8")
