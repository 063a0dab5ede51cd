"""Write and read checkpoints of a Keras model: weights, the optimizer's state, random states."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from keras.src.backend.common import global_state  # Keras has no public name for its shared generator

from ... import streams
from ...training.checkpoints import first_difference, other_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import keras

    from ...context import Context

MODEL, OPTIMIZER = "model.npz", "optimizer.npz"


class Saver:
    """Writes and reads a checkpoint's files.

    Weights are stored by position and path (`3:sequential/dense/bias`). Any numpy reads them, and an error can name
    the weight that does not fit. The files contain no code (`allow_pickle=False`).
    """

    def __init__(
        self,
        model: keras.Model,
        optimizers: Sequence[keras.optimizers.Optimizer],
        context: Context,
        *,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        """`before`: called before the files are written."""
        self._model, self._optimizers, self._rank, self._before = model, optimizers, context.rank, before
        self._random_name = f"random-{self._rank}.json"

    def save(self, folder: Path) -> None:
        """Write model and optimizer on rank 0, and each rank's random states."""
        self._before()
        if self._rank == 0:
            _write(folder / MODEL, self._model.weights)
            _write(folder / OPTIMIZER, self._state)
        (folder / self._random_name).write_text(json.dumps(random_states(self._model)), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        weights = _read(folder / MODEL, self._model.weights)
        state = _read(folder / OPTIMIZER, self._state)
        _assign(self._model.weights, weights)
        _assign(self._state, state)
        path = folder / self._random_name
        if path.exists():  # a run of fewer workers has none for this rank
            set_random_states(self._model, json.loads(path.read_text(encoding="utf-8")))

    @property
    def _state(self) -> list[keras.Variable]:
        """The variables of all optimizers."""
        return [variable for optimizer in self._optimizers for variable in optimizer.variables]


def random_states(model: keras.Model) -> dict[str, Any]:
    """Return the random states of Python, numpy and the model's layers, as plain values."""
    of_layers = [variable.numpy().tolist() for variable in _seed_states(model)]
    return {**streams.plain(streams.random_states()), "keras": of_layers}


def set_random_states(model: keras.Model, states: dict[str, Any]) -> None:
    streams.set_random_states(states)
    for variable, value in zip(_seed_states(model), states["keras"], strict=False):
        variable.assign(np.asarray(value, dtype=variable.dtype))


def _seed_states(model: keras.Model) -> list[keras.Variable]:
    """Return the states of the model's seed generators (dropout): variables that are not weights."""
    weights = {id(variable) for variable in model.weights}
    return [each for each in model.non_trainable_variables if id(each) not in weights]


@contextlib.contextmanager
def undisturbed(model: keras.Model) -> Iterator[None]:
    """Let a function of the recipe use the model, and then restore the random states."""
    states = random_states(model)
    shared = global_state.get_global_attribute("global_seed_generator")  # None if no random function has used it
    before = None if shared is None else shared.state.numpy()
    try:
        yield
    finally:
        set_random_states(model, states)
        if shared is not None:
            shared.state.assign(before)


def _keys(variables: Sequence[keras.Variable]) -> list[str]:
    return [f"{position}:{variable.path}" for position, variable in enumerate(variables)]


def _write(path: Path, variables: Sequence[keras.Variable]) -> None:
    arrays = (variable.numpy() for variable in variables)
    # numpy has no bfloat16. As float32 the values lose nothing, and assigning them makes bfloat16 again.
    plain = (array.astype(np.float32) if array.dtype.name == "bfloat16" else array for array in arrays)
    np.savez(path, **dict(zip(_keys(variables), plain, strict=True)))


def _read(path: Path, variables: Sequence[keras.Variable]) -> list[np.ndarray[Any, Any]]:
    """Return the arrays by position. Raises `ValueError` unless they fit these variables."""
    with np.load(path, allow_pickle=False) as file:
        saved = {key: file[key] for key in file.files}
    wanted = {key: tuple(each.shape) for key, each in zip(_keys(variables), variables, strict=True)}
    found = {key: array.shape for key, array in saved.items()}
    if (difference := first_difference(found, wanted)) and not _differs_in_front(found, wanted):
        raise other_model(path.parent, difference)
    return list(saved.values())


def _differs_in_front(found: Mapping[str, Sequence[int]], wanted: Mapping[str, Sequence[int]]) -> bool:
    """Return whether shapes and names are equal in order, but for what names begin with.

    `3:sequential/dense/bias` is `3:dense/bias` in a placed model, whose layers are in no other.
    """

    def is_same(one: str, other: str) -> bool:
        start = next((at for at, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), 0)
        return one.endswith(other[start:]) or other.endswith(one[start:])

    is_equal = list(found.values()) == list(wanted.values())
    return is_equal and all(map(is_same, found, wanted))


def _assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray[Any, Any]]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
