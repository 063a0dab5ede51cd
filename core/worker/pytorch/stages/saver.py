"""Checkpoints of a pipeline: each rank writes its stage, under the names that the whole model has for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .._saver import another_model, random_file, random_states, read, set_random_states, write
from .stage import CUT

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor

    from ...context import Context
    from .stage import Stage


class StageSaver:
    """The files of all ranks together hold the whole model; rank 0 adds where it was cut."""

    def __init__(self, stage: Stage, optimizer: torch.optim.Optimizer, context: Context) -> None:
        self._stage, self._optimizer = stage, optimizer
        self._rank = context.rank

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        held = self._stage.module.state_dict()
        state = {full: held[name] for name, full in self._stage.names.items()}
        write(folder / f"model-{self._rank}.pt", state)
        write(folder / f"optimizer-{self._rank}.pt", self._optimizer.state_dict())
        write(folder / random_file(self._rank), random_states())
        if self._rank == 0:
            (folder / CUT).write_text(json.dumps(self._stage.begins) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take up what was saved. Raises `ValueError` with a sentence when it is of another model."""
        try:
            self._take(read(folder / f"model-{self._rank}.pt"))
            self._optimizer.load_state_dict(read(folder / f"optimizer-{self._rank}.pt"))
        except (RuntimeError, ValueError, KeyError) as error:
            raise ValueError(another_model(folder, error)) from error
        set_random_states(read(folder / random_file(self._rank)))

    def _take(self, state: dict[str, Tensor]) -> None:
        names, module = self._stage.names, self._stage.module
        if state.keys() != set(names.values()):
            other = sorted(state.keys() ^ set(names.values()))
            raise ValueError(f"{other[0]} is in one of them only")
        module.load_state_dict({**module.state_dict(), **{name: state[full] for name, full in names.items()}})
