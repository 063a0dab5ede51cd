"""Streams, data that can only be read in order, independent of the framework: their length, their random numbers."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any

from ..language import tr, tr_plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.settings import Training


def stream_steps(stream: Any, training: Training) -> int:  # noqa: ANN401 (whatever iterates)
    """Return the steps of an epoch: those of the run's settings, else as many as the stream's length gives.

    Raises `ValueError` if neither is known.
    """
    if training.steps_per_epoch is not None:
        return training.steps_per_epoch
    if not hasattr(stream, "__len__"):
        raise ValueError(
            tr(
                "train_data() returned a stream of unknown length. Give the number of steps per epoch "
                "(--steps-per-epoch N), or the stream a method __len__()."
            )
        )
    return -(-len(stream) // training.batch_size)


def limited_items(items: int, batch_size: int, steps: int | None) -> int:
    """Return the number of items of an epoch of so many steps; None for all. Raises `ValueError` if there are fewer."""
    used = items if steps is None else min(items, steps * batch_size)
    own = -(-used // batch_size)
    if steps is not None and own < steps:
        raise ValueError(
            tr(
                "An epoch is to have {steps} steps, but {items} items are only {own} steps of {batch_size}. "
                "Set fewer steps per epoch.",
                steps=steps,
                items=items,
                own=own,
                batch_size=batch_size,
            )
        )
    return used


def too_short(function: str, *, steps: int, batch_size: int, wanted: int | None) -> ValueError:
    """Return the error for a stream that ended after so many steps. `wanted`: of an epoch; None: any number."""
    if not steps:
        return ValueError(tr("{function}() returned an empty stream. There is nothing to train on.", function=function))
    return ValueError(
        tr_plural(
            "The stream of {function}() ended after {count} step of {batch_size} items, but an epoch has {steps}. "
            "Set the steps per epoch to {count}, or let the stream begin again by itself.",
            "The stream of {function}() ended after {count} steps of {batch_size} items, but an epoch has {steps}. "
            "Set the steps per epoch to {count}, or let the stream begin again by itself.",
            steps,
            function=function,
            batch_size=batch_size,
            steps=wanted,
        )
    )


class StreamRandomness:
    """Random states of Python and numpy that belong to a stream alone. A framework may add its own."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: Any = None

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Use the stream's states within the block."""
        before = self.states()
        if self._states is None:
            self.begin(self._seed)
        else:
            self.restore(self._states)
        try:
            yield
        finally:
            self._states = self.states()
            self.restore(before)

    def begin(self, seed: int) -> None:
        """Set the states that a seed gives."""
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)

    def states(self) -> Any:  # noqa: ANN401 (of several libraries)
        """Return the present states."""
        numpy = sys.modules.get("numpy")
        return random.getstate(), numpy.random.get_state() if numpy else None

    def restore(self, states: Any) -> None:  # noqa: ANN401 (of several libraries)
        """Set the states that `states` returned."""
        python, numpys = states
        random.setstate(python)
        if numpys is not None:
            sys.modules["numpy"].random.set_state(numpys)
