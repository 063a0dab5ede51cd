"""The global batches of a stream: data that can only be read in order, of known or unknown length."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate
from torch.utils.data import _utils as loader_internals

from ...streams import StreamRandomness, too_short
from .data import MicroBatch, checked, spread
from .nested import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Collate = Callable[[list[Any]], Any]
    Source = Callable[[], Iterable[Any]]


class Shares(NamedTuple):
    """How the items of a step are divided."""

    batch_size: int
    """Items of a whole global batch."""
    rank: int
    world_size: int
    accumulation: int

    def of(self, items: list[Any]) -> list[list[Any]]:
        """Return this rank's micro-batches of a step's items; one idle item on a rank that gets none."""
        least, more = divmod(len(items), self.world_size)
        start, size = self.rank * least + min(self.rank, more), least + (self.rank < more)
        own = items[start : start + size] or items[:1]
        parts = min(self.accumulation, len(own))
        least, more = divmod(len(own), parts)  # as `torch.tensor_split`
        sizes = [least + (part < more) for part in range(parts)]
        following = iter(own)
        return [list(islice(following, each)) for each in sizes]

    def share(self, items: int) -> float:
        """Return this rank's share of a step with so many items."""
        least, more = divmod(items, self.world_size)
        return (least + (self.rank < more)) / items


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
        self._moves = device.type != "cpu"
        self._collate: Collate = collate or default_collate
        self._check: Callable[[Any], Any] = (lambda batch: batch) if any_shape else checked
        self._sizes: dict[int, int] = {}

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
        part = _Part(stream, self._shares, self._collate, spread(self._seed, epoch), wanted)
        steps: Iterable[_Step] = part
        if self._workers:
            steps = DataLoader(
                part, batch_size=None, num_workers=self._workers, pin_memory=self.device.type == "cuda",
                generator=torch.Generator().manual_seed(spread(self._seed, epoch)),
            )  # fmt: skip
        count = skip
        for number, (batches, sizes, items) in enumerate(steps, start=skip):
            self._sizes = {number: items}
            share, own = self._shares.share(items), sum(sizes)
            yield [
                MicroBatch(self._on_device(batch), share * size / own)
                for batch, size in zip(batches, sizes, strict=True)
            ]
            count = number + 1
        if count < (self._limit or 1):
            raise too_short(self._function, steps=count, batch_size=self._shares.batch_size, wanted=self._limit)

    def _on_device(self, batch: Any) -> Any:  # noqa: ANN401 (any shape)
        batch = self._check(batch)
        if not self._moves:
            return batch
        return map_tensors(lambda each: each.to(self.device, non_blocking=True), batch)


_Step = tuple[list[Any], list[int], int]
"""This rank's collated micro-batches, their numbers of items, and the number of items of the step."""


class _Part(IterableDataset[_Step]):
    """The steps of a stream as one rank sees them; of several loader workers, each takes every n-th step."""

    def __init__(self, stream: Iterable[Any], shares: Shares, collate: Collate, seed: int, wanted: range) -> None:
        """`wanted`: the numbers of the steps to yield."""
        self._stream, self._shares, self._collate = stream, shares, collate
        self._seed, self._wanted = seed, wanted

    def __iter__(self) -> Iterator[_Step]:
        worker, workers = _worker()
        states = _Randomness(self._seed)
        with states.own():
            stream = iter(self._stream)
        for step in range(self._wanted.stop):
            is_mine = step in self._wanted and (step - self._wanted.start) % workers == worker
            with states.own():
                following = islice(stream, self._shares.batch_size)
                items = list(following) if is_mine else [None] * sum(1 for _ in following)
            if not items:
                return
            if is_mine:
                batches = self._shares.of(items)
                yield [self._collate(each) for each in batches], [len(each) for each in batches], len(items)


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
        """Set the states that a seed gives."""
        super().begin(seed)
        torch.default_generator.manual_seed(seed)  # not those of GPUs: a stream's data are on the host

    def states(self) -> Any:  # noqa: ANN401 (of three libraries)
        """Return the present states."""
        return super().states(), torch.get_rng_state()

    def restore(self, states: Any) -> None:  # noqa: ANN401 (of three libraries)
        """Set the states that `states` returned."""
        others, torchs = states
        super().restore(others)
        torch.set_rng_state(torchs)
