"""Write and read checkpoints of PyTorch: weights, optimizer, random states. Loading one cannot run code."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any

import torch

from ....language import tr
from ..task.stream import StreamBatches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import nn

    from ....schema.checkpoint import StateSaver
    from ...context import Context
    from .common import Task

MODEL = "model.pt"
"""A plain state_dict under the model's own names, which any program can load."""
OPTIMIZER = "optimizer.pt"
"""The optimizer's own state_dict; of several, those of all, by name."""
SCALER = "scaler.pt"
"""The loss scale of each optimizer, for float16."""


class WholeSaver:
    """Saves a model that is whole on every rank: rank 0 writes it, each rank its random states."""

    def __init__(self, task: Task, context: Context, *, beside: StateSaver | None = None) -> None:
        """`beside`: saves what each rank of a strategy has besides."""
        self._task = task
        self._rank = context.rank
        self._beside = beside

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        if self._rank == 0:
            write(folder / MODEL, self._task.model.state_dict())
            write(folder / OPTIMIZER, _optimizer_state(self._task))
            save_scale(self._task, folder)
        if self._beside is not None:
            self._beside.save(folder)
        save_stream(self._task, folder, self._rank)
        write(folder / random_file(self._rank), random_states())

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        try:
            self._task.model.load_state_dict(read(folder / MODEL))
            _load_optimizers(self._task, read(folder / OPTIMIZER))
            load_scale(self._task, folder)
        except (RuntimeError, ValueError, KeyError) as error:
            raise does_not_fit(folder, error) from error
        if self._beside is not None:
            self._beside.load(folder)
        load_stream(self._task, folder, self._rank)
        set_random_states(read(folder / random_file(self._rank)))


def _optimizer_state(task: Task) -> dict[str, Any]:
    if not task.turns:
        return task.optimizer.state_dict()
    return {each.turn[0]: each.optimizer.state_dict() for each in task.turns}


def _load_optimizers(task: Task, state: dict[str, Any]) -> None:
    if not task.turns:
        task.optimizer.load_state_dict(state)
        return
    names = [each.turn[0] for each in task.turns]
    if list(state) != names:
        raise ValueError(tr("it has the optimizers {found}, not {own}", found=", ".join(state), own=", ".join(names)))
    for each in task.turns:
        each.optimizer.load_state_dict(state[each.turn[0]])


def save_scale(task: Task, folder: Path) -> None:
    """Write the loss scale, for float16. It is the same on all ranks."""
    if task.scaler is not None:
        write(folder / SCALER, [each.scaler.state_dict() for each in task.turns or (task,) if each.scaler is not None])


def load_scale(task: Task, folder: Path) -> None:
    """Load what `save_scale` wrote."""
    if task.scaler is None:
        return
    for each, state in zip(task.turns or (task,), read(folder / SCALER), strict=True):
        assert each.scaler is not None
        each.scaler.load_state_dict(state)


def save_stream(task: Task, folder: Path, rank: int) -> None:
    """Write the state of the training's stream, if it has one: each rank reads it by itself."""
    if isinstance(task.train, StreamBatches) and (state := task.train.state_dict()):
        write(folder / _stream_file(rank), state)


def load_stream(task: Task, folder: Path, rank: int) -> None:
    """Load what `save_stream` wrote, if it wrote anything."""
    path = folder / _stream_file(rank)
    if isinstance(task.train, StreamBatches) and path.exists():
        task.train.load_state_dict(read(path))


def _stream_file(rank: int) -> str:
    return f"stream-{rank}.pt"


def random_file(rank: int) -> str:
    """Return the name of the file with a rank's random states."""
    return f"random-{rank}.pt"


def write(path: Path, content: object) -> None:
    """Save tensors and plain values. Raises `OSError` if they cannot be written."""
    with path.open("wb") as file:  # a handle of ours: torch's own writer reports a full disk as a RuntimeError
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's for an OSError in the middle of the archive
            cause = error.__cause__ or error.__context__
            raise (cause if isinstance(cause, OSError) else OSError(None, str(error))) from error


def read(path: Path) -> Any:  # noqa: ANN401 (what `write` wrote)
    """Load what `write` wrote, onto the CPU. This cannot run code."""
    return torch.load(path, map_location="cpu", weights_only=True)


def random_states() -> dict[str, Any]:
    """Return the random states of Python, numpy and torch, as plain values and tensors."""
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (name, keys.tolist(), *rest)
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Restore the random states that `random_states` returned."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states and "numpy" in sys.modules:
        name, keys, *rest = states["numpy"]
        numpy = sys.modules["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype="uint32"), *rest))


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Let a function of the recipe use the model for evaluation, and then restore its modes and the random states."""
    states, modes = random_states(), [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
        set_random_states(states)


def does_not_fit(folder: Path, error: Exception) -> ValueError:
    """Return the error for a checkpoint of another model."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    detail = lines[1] if len(lines) > 1 else lines[0]
    return ValueError(
        tr(
            "Checkpoint {folder} is of another model or optimizer: {detail}. "
            "Undo the changes to the recipe, or start a new run.",
            folder=folder.name,
            detail=detail.rstrip("."),
        )
    )
