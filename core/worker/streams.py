"""Streams, data that can only be read in order, independent of the framework: their length, their random numbers."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any

from ..language import tr, tr_plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


def part(items: int, number: int, parts: int) -> tuple[int, int]:
    """Return start and size of one of `parts` contiguous parts of so many items, as `torch.tensor_split` divides them.

    Sizes differ by one item at most.
    """
    least, more = divmod(items, parts)
    return number * least + min(number, more), least + (number < more)


def empty_data(function: str, kind: str) -> ValueError:
    """Return the error for data without items. `kind`: what they are."""
    return ValueError(
        tr("{function}() returned an empty {kind}. There is nothing to train on.", function=function, kind=kind)
    )


def too_short(function: str, *, steps: int, batch_size: int, wanted: int | None) -> ValueError:
    """Return the error for a stream that ended after so many steps. `wanted`: of an epoch; None: any number."""
    if not steps:
        return empty_data(function, tr("stream"))
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


def seed_plainly(seed: int) -> None:
    """Seed Python, and numpy if it is loaded."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def random_states() -> dict[str, Any]:
    """Return the random states of Python and, if it is loaded, numpy."""
    numpy = sys.modules.get("numpy")
    return {"python": random.getstate(), **({"numpy": numpy.random.get_state()} if numpy else {})}


def set_random_states(states: Mapping[str, Any]) -> None:
    """Set the states that `random_states` returned, also as plain values, and those read from JSON."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(tuple(states["numpy"]))


def plain(states: dict[str, Any]) -> dict[str, Any]:
    """Return random states with numpy's as plain values, for a checkpoint."""
    if "numpy" not in states:
        return states
    name, keys, *rest = states["numpy"]
    return {**states, "numpy": (name, keys.tolist(), *rest)}


class StreamRandomness:
    """Random states of Python and numpy that belong to a stream alone. A framework may add its own."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.kept: dict[str, Any] | None = None
        """The states between two uses; None before the first."""

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Use the stream's states within the block."""
        before = self.states()
        if self.kept is None:
            self.begin(self._seed)
        else:
            self.restore(self.kept)
        try:
            yield
        finally:
            self.kept = self.states()
            self.restore(before)

    def begin(self, seed: int) -> None:
        """Set the states that a seed gives."""
        seed_plainly(seed)

    def states(self) -> dict[str, Any]:
        """Return the present states."""
        return random_states()

    def restore(self, states: dict[str, Any]) -> None:
        """Set the states that `states` returned."""
        set_random_states(states)
