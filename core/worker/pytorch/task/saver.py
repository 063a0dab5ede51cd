"""Write and read checkpoints of PyTorch: weights, optimizer, random states. Loading one cannot run code."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from ....language import tr
from ... import streams
from ...training.checkpoints import other_model
from .stream import StreamBatches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import nn

    from ....schema.checkpoint import StateSaver
    from ...context import Context
    from .build import Task

MODEL = "model.pt"
"""A plain state_dict under the model's own names, which any program can load."""
OPTIMIZER = "optimizer.pt"
"""The optimizer's own state_dict; of several, those of all, by name."""
SCALER = "scaler.pt"
"""The loss scale of each optimizer, for float16."""


class Saver:
    """Saves a training: the weights as its strategy does, the loss scale, and each rank's stream and random states."""

    def __init__(
        self, task: Task, context: Context, weights: StateSaver | None = None, *, beside: StateSaver | None = None
    ) -> None:
        """`weights`: saves model and optimizer, by default of a model that is whole on every rank.

        `beside`: saves what each rank of a strategy has besides.
        """
        self._task, self._rank, self._beside = task, context.rank, beside
        self._weights = weights or _WholeWeights(task, context)
        self._random, self._stream = f"random-{self._rank}.pt", f"stream-{self._rank}.pt"
        self._scaled = [each for each in task.turns or (task,) if each.scaler is not None]

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        self._weights.save(folder)
        if self._rank == 0 and self._scaled:  # it is the same on all ranks
            write(folder / SCALER, [each.scaler.state_dict() for each in self._scaled if each.scaler is not None])
        if self._beside is not None:
            self._beside.save(folder)
        if isinstance(self._task.train, StreamBatches) and (state := self._task.train.state_dict()):
            write(folder / self._stream, state)
        write(folder / self._random, random_states())

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        try:
            self._weights.load(folder)
            for each, state in zip(self._scaled, read(folder / SCALER) if self._scaled else (), strict=True):
                assert each.scaler is not None
                each.scaler.load_state_dict(state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise does_not_fit(folder, error) from error
        if self._beside is not None:
            self._beside.load(folder)
        if isinstance(self._task.train, StreamBatches) and (folder / self._stream).exists():
            self._task.train.load_state_dict(read(folder / self._stream))
        set_random_states(read(folder / self._random))


class _WholeWeights:
    """Saves a model that is whole on every rank: rank 0 writes it."""

    def __init__(self, task: Task, context: Context) -> None:
        self._task, self._rank = task, context.rank

    def save(self, folder: Path) -> None:
        if self._rank == 0:
            task = self._task
            several = {each.turn[0]: each.optimizer.state_dict() for each in task.turns}
            write(folder / MODEL, task.model.state_dict())
            write(folder / OPTIMIZER, several or task.optimizer.state_dict())

    def load(self, folder: Path) -> None:
        task = self._task
        task.model.load_state_dict(read(folder / MODEL))
        state, names = read(folder / OPTIMIZER), [each.turn[0] for each in task.turns]
        if not names:
            task.optimizer.load_state_dict(state)
        elif list(state) != names:
            found, own = ", ".join(state), ", ".join(names)
            raise ValueError(tr("it has the optimizers {found}, not {own}", found=found, own=own))
        for each in task.turns:
            each.optimizer.load_state_dict(state[each.turn[0]])


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
    on_gpus = {"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else {}
    return {**streams.plain(streams.random_states()), "torch": torch.get_rng_state(), **on_gpus}


def set_random_states(states: dict[str, Any]) -> None:
    streams.set_random_states(states)
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


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
    """Return the error for a checkpoint of another model, as torch explains it: in the second line, if there is one."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return other_model(folder, (lines[1] if len(lines) > 1 else lines[0]).rstrip("."))
