"""Checkpoints of a sharded model: rank 0 gathers and writes the whole model under its own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from ....language import tr
from .distributed import broadcast_object
from .saver import (
    MODEL,
    OPTIMIZER,
    does_not_fit,
    load_scale,
    load_stream,
    random_file,
    random_states,
    read,
    save_scale,
    save_stream,
    set_random_states,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ...context import Context
    from .common import Task


class ShardedSaver:
    """Saves model and optimizer on rank 0, so that any number of ranks can load them; each rank its random states."""

    def __init__(self, task: Task, context: Context) -> None:
        self._task, self._model = task, task.model
        self._optimizers = tuple(each.optimizer for each in task.turns or (task,))
        self._rank = context.rank

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        gather = StateDictOptions(full_state_dict=True, cpu_offload=True)
        model = get_model_state_dict(self._model, options=gather)
        optimizer = get_optimizer_state_dict(self._model, self._optimizers, options=gather)
        if self._rank == 0:
            write(folder / MODEL, model)
            write(folder / OPTIMIZER, optimizer)
            save_scale(self._task, folder)
        save_stream(self._task, folder, self._rank)
        write(folder / random_file(self._rank), random_states())

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        first = self._rank == 0
        model: dict[str, Any] = read(folder / MODEL) if first else {}
        optimizer: dict[str, Any] = read(folder / OPTIMIZER) if first else {}
        spread = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        try:
            if first:
                self._compare(model)
            set_model_state_dict(self._model, model, options=spread)
            device = next(self._model.parameters()).device
            if broadcast_object(
                0, first and bool(optimizer["state"]), device
            ):  # plain SGD has no state, and torch would fail
                set_optimizer_state_dict(self._model, self._optimizers, optimizer, options=spread)
            load_scale(self._task, folder)
        except (RuntimeError, ValueError, KeyError) as error:
            raise does_not_fit(folder, error) from error
        load_stream(self._task, folder, self._rank)
        set_random_states(read(folder / random_file(self._rank)))

    def _compare(self, found: dict[str, Any]) -> None:
        """Raise `ValueError` for another model before anything is sent: else other ranks would wait for ever."""
        wanted = {name: value.shape for name, value in self._model.state_dict().items()}
        for name, shape in wanted.items():
            if name not in found:
                raise ValueError(tr("it has no {name}", name=name))
            if found[name].shape != shape:
                raise ValueError(
                    tr(
                        "{name} has the shape {shape} instead of {own_shape}",
                        name=name,
                        shape=tuple(found[name].shape),
                        own_shape=tuple(shape),
                    )
                )
        for name in found.keys() - wanted.keys():
            raise ValueError(tr("this model has no {name}", name=name))
