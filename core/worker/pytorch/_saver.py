"""What a checkpoint of PyTorch holds: weights, optimizer, random states; nothing in it can run code."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from ..context import Context

MODEL = "model.pt"
"""A pure state_dict under the model's own names, to be loaded anywhere."""
OPTIMIZER = "optimizer.pt"


class WholeSaver:
    """For strategies that keep the whole model on every rank: rank 0 writes it, each rank its random states."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, context: Context) -> None:
        self._model, self._optimizer = model, optimizer
        self._rank = context.rank

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        if self._rank == 0:
            write(folder / MODEL, self._model.state_dict())
            write(folder / OPTIMIZER, self._optimizer.state_dict())
        write(folder / random_file(self._rank), random_states())

    def load(self, folder: Path) -> None:
        """Take up what was saved. Raises `ValueError` with a sentence when it is of another model."""
        try:
            self._model.load_state_dict(read(folder / MODEL))
            self._optimizer.load_state_dict(read(folder / OPTIMIZER))
        except (RuntimeError, ValueError, KeyError) as error:
            raise ValueError(another_model(folder, error)) from error
        set_random_states(read(folder / random_file(self._rank)))


def random_file(rank: int) -> str:
    """The name of the file with a rank's random states."""
    return f"random-{rank}.pt"


def write(path: Path, content: object) -> None:
    """Save tensors and plain values. Raises `OSError` where the disk does not take them."""
    with path.open("wb") as file:  # our own handle: torch's own writer reports a full disk as a RuntimeError
        try:
            torch.save(content, file)
        except RuntimeError as error:  # which it makes of an OSError in the middle of the archive
            cause = error.__cause__ or error.__context__
            raise (cause if isinstance(cause, OSError) else OSError(None, str(error))) from error


def read(path: Path) -> Any:  # noqa: ANN401 (what `write` wrote)
    """Load what `write` wrote, onto the CPU; it cannot run code."""
    return torch.load(path, map_location="cpu", weights_only=True)


def random_states() -> dict[str, Any]:
    """The random states of Python, numpy and torch, as plain values and tensors."""
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (name, keys.tolist(), *rest)
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Go on with the random states that `random_states` gave."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states and "numpy" in sys.modules:
        name, keys, *rest = states["numpy"]
        numpy = sys.modules["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype="uint32"), *rest))


def another_model(folder: Path, error: Exception) -> str:
    """The sentence for a checkpoint that does not fit."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    detail = lines[1] if len(lines) > 1 else lines[0]
    return (
        f"Checkpoint {folder.name} is of another model or optimizer: {detail.rstrip('.')}. "
        "Set the recipe back to what it was, or start a new run."
    )
