"""The global batches of a stream: data that can only be read in order, of known or unknown length."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate
from torch.utils.data import _utils as loader_internals

from ...streams import StreamRandomness, plain, too_short
from .data import MicroBatch, prepared, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .data import Shares

    Collate = Callable[[list[Any]], Any]
    Source = Callable[[], Iterable[Any]]


class StreamBatches:
    """A stream in global batches, of which this rank takes its contiguous slice; see `Batches`.

    Every rank and every data-loader worker reads the whole stream and keeps its part, so that no item is taken twice or
    lost, whatever the stream does. Each epoch reads the stream from its beginning. It begins with random states that
    only the seed and the epoch fix, so that a stream that draws random numbers has one order on all of them.
    """

    def __init__(
        self,
        source: Source,
        function: str,
        *,
        shares: Shares,
        device: torch.device,
        steps: int | None,
        loader_workers: int = 0,
        seed: int = 0,
        any_shape: bool = False,
        collate: Collate | None = None,
    ) -> None:
        """`source`: returns the stream for an epoch. `steps`: of an epoch; None for a validation: to its end."""
        self.device = device
        self.steps = steps or 0
        self.items = self.steps * shares.batch_size
        self._source, self._function, self._shares, self._limit = source, function, shares, steps
        self._workers, self._seed = loader_workers, seed
        self._collate: Collate = collate or default_collate
        self.prepare = prepared(device, any_shape=any_shape)
        self._sizes: dict[int, int] = {}
        self._reading: tuple[_Part, int, int] | None = None
        """The epoch's reader in this process, the epoch, and its steps so far."""
        self._begun: dict[str, Any] = {}
        """The state from which a resumed epoch begins."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, so that a resumed epoch need not read the stream from its beginning.

        It is empty where the stream has no state of plain values, or is read by other processes: then a resumed epoch
        reads past the items that were used.
        """
        if self._reading is None or self._workers:
            return {}
        part, epoch, steps = self._reading
        kept = part.state()
        return {} if kept is None else {"epoch": epoch, "steps": steps, **kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._begun = state

    def shuffled(self, epoch: int, skip: int = 0) -> Iterator[list[MicroBatch]]:
        """Yield the micro-batches of each step of an epoch, in the stream's order, without the first `skip` steps."""
        return self._batches(epoch, skip)

    def in_order(self) -> Iterator[list[MicroBatch]]:
        """Yield the stream once."""
        return self._batches(0, 0)

    def size(self, step: int) -> int:
        """Return the number of items of a step that was yielded last."""
        return self._sizes[step]

    def _batches(self, epoch: int, skip: int) -> Iterator[list[MicroBatch]]:
        stream = self._source()
        if hasattr(stream, "set_epoch"):
            stream.set_epoch(epoch)
        wanted = range(skip, sys.maxsize if self._limit is None else self._limit)
        is_kept = (self._begun.get("epoch"), self._begun.get("steps")) == (epoch, skip)
        begun, self._begun = (self._begun if is_kept and not self._workers else None), {}
        seed = spread(self._seed, epoch)
        part = _Part(stream, self._shares, self._collate, seed=seed, wanted=wanted, begun=begun)
        steps: Iterable[_Step] = part
        if self._workers:
            steps = DataLoader(
                part, batch_size=None, num_workers=self._workers, pin_memory=self.device.type == "cuda",
                generator=torch.Generator().manual_seed(seed),
            )
        count = skip
        for number, (batches, sizes, items) in enumerate(steps, start=skip):
            self._sizes = {number: items}
            self._reading = part, epoch, number + 1
            share, own = self._shares.share(items), sum(sizes)
            yield [
                MicroBatch(self.prepare(batch), share * size / own)
                for batch, size in zip(batches, sizes, strict=True)
            ]
            count = number + 1
        if count < (self._limit or 1):
            raise too_short(self._function, steps=count, batch_size=self._shares.batch_size, wanted=self._limit)


_Step = tuple[list[Any], list[int], int]
"""This rank's collated micro-batches, their numbers of items, and the number of items of the step."""


class _Part(IterableDataset[_Step]):
    """The steps of a stream as one rank sees them; of several loader workers, each takes every n-th step."""

    def __init__(
        self,
        stream: Iterable[Any],
        shares: Shares,
        collate: Collate,
        *,
        seed: int,
        wanted: range,
        begun: dict[str, Any] | None,
    ) -> None:
        """`wanted`: the numbers of the steps to yield. `begun`: what `state` returned after the step before them."""
        self._stream, self._shares, self._collate = stream, shares, collate
        self._seed, self._wanted, self._begun = seed, wanted, begun
        self._states = _Randomness(seed)

    def state(self) -> dict[str, Any] | None:
        """Return the state of the stream and its random numbers; None if the stream has none that can be kept."""
        if not (hasattr(self._stream, "state_dict") and hasattr(self._stream, "load_state_dict")):
            return None
        with self._states.own():
            kept = self._stream.state_dict()
        assert self._states.kept is not None, "`own` has set them"
        return {"stream": kept, "random": plain(self._states.kept)} if _is_plain(kept) else None

    def _begin(self) -> tuple[Iterator[Any], int]:
        """Return the stream from where it is to be read, and the step of its next item."""
        with self._states.own():
            if self._begun is None:
                return iter(self._stream), 0
            self._stream.load_state_dict(self._begun["stream"])  # type: ignore[attr-defined]  # `state` has seen it
            stream = iter(self._stream)
        self._states.kept = self._begun["random"]  # beginning may have drawn numbers
        return stream, self._wanted.start

    def __iter__(self) -> Iterator[_Step]:
        worker, workers = _worker()
        states = self._states
        stream, first = self._begin()
        for step in range(first, self._wanted.stop):
            is_mine = step in self._wanted and (step - self._wanted.start) % workers == worker
            with states.own():
                following = islice(stream, self._shares.batch_size)
                items = list(following) if is_mine else [None] * sum(1 for _ in following)
            if not items:
                return
            if is_mine:
                batches = self._shares.of(items)
                yield [self._collate(each) for each in batches], [len(each) for each in batches], len(items)


def _is_plain(value: object) -> bool:
    """Return whether a value can be loaded from a checkpoint without running code."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, (list, tuple)):
        return type(value) in {list, tuple} and all(map(_is_plain, value))
    return value is None or type(value) in {bool, int, float, str, bytes, torch.Tensor}


def _worker() -> tuple[int, int]:
    """Return this loader worker's number and their count, and let the stream believe that it is read by one process.

    A stream that divides itself among the workers would otherwise be divided twice.
    """
    info = torch.utils.data.get_worker_info()
    if info is None:
        return 0, 1
    loader_internals.worker._worker_info = None  # noqa: SLF001 (torch has no public way)
    return info.id, info.num_workers


class _Randomness(StreamRandomness):
    """Random states of Python, numpy and torch that belong to the stream alone."""

    def begin(self, seed: int) -> None:
        super().begin(seed)
        torch.default_generator.manual_seed(seed)  # not those of GPUs: a stream's data are on the host

    def states(self) -> dict[str, Any]:
        return {**super().states(), "torch": torch.get_rng_state()}

    def restore(self, states: dict[str, Any]) -> None:
        super().restore(states)
        torch.set_rng_state(states["torch"])
