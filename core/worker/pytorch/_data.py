"""The global batches of an epoch, cut into this rank's micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

CUT_AT_ONCE = 1024  # steps; an epoch of millions must not become millions of tensors


class MicroBatch(NamedTuple):
    """One forward and backward pass."""

    inputs: Sequence[Tensor]
    """The model's arguments, each of shape (items, ...)."""
    target: Tensor
    """Shape (items, ...)."""
    share: float
    """Its items over the items of the global batch: the weight of its mean loss. All shares add up to 1."""


def as_dataset(data: object, function: str) -> Dataset[Any]:
    """What a recipe's function returned, as a map-style dataset. Raises `TypeError` with a sentence."""
    if isinstance(data, (tuple, list)) and data and all(isinstance(part, torch.Tensor) for part in data):
        return TensorDataset(*data)
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            f"{function}() returned {type(data).__name__}. Return a map-style torch Dataset "
            "(with __len__ and __getitem__) or a tuple of tensors, inputs first, target last."
        )
    dataset: Dataset[Any] = cast("Dataset[Any]", data)  # by its shape: it need not be a subclass
    if len(dataset) == 0:  # type: ignore[arg-type]  # has __len__, as just asked
        raise ValueError(f"{function}() returned an empty {type(data).__name__}. There is nothing to train on.")
    return dataset


class Batches:
    """A dataset in global batches, of which this rank takes its contiguous slice.

    One rank and many thus see the same items in the same optimizer step. A last batch that does not
    divide evenly is weighted by its size. A rank that gets no item of it trains on one item with
    share 0, because in data parallel training every rank has to take part in every step.

    `batch_size` is a multiple of `world_size * accumulation`, as `core.catalog.problems` makes sure.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        batch_size: int,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
        loader_workers: int = 0,
    ) -> None:
        self.items = len(dataset)  # type: ignore[arg-type]  # see as_dataset
        self.steps = -(-self.items // batch_size)
        self._batch_size = batch_size
        self._rank, self._world_size, self._accumulation = rank, world_size, accumulation
        self._device = device
        self._order = torch.arange(self.items)
        self._tensors = dataset.tensors if isinstance(dataset, TensorDataset) and not loader_workers else None
        self._loader = None if self._tensors else self._make_loader(dataset, loader_workers)

    def shuffled(self, seed: int, epoch: int) -> Iterator[list[MicroBatch]]:
        """One epoch in the order that `seed` and `epoch` fix, on any number of ranks: per step its micro-batches."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        self._order = torch.randperm(self.items, generator=generator)
        return self._batches()

    def in_order(self) -> Iterator[list[MicroBatch]]:
        """The dataset once, as it stands."""
        self._order = torch.arange(self.items)
        return self._batches()

    def size(self, step: int) -> int:
        """Items of a global batch: the last may have fewer."""
        return min(self._batch_size, self.items - step * self._batch_size)

    def slices(self) -> Iterator[Tensor]:
        """The indices of this rank's items, step by step; cut many at a time, since each cut costs microseconds."""
        whole = self.items // self._batch_size * self._batch_size
        for many in self._order[:whole].split(self._batch_size * CUT_AT_ONCE):  # type: ignore[no-untyped-call]
            yield from many.view(-1, self._world_size, self._batch_size // self._world_size)[:, self._rank].unbind()
        if whole < self.items:
            mine = self._order[whole:].tensor_split(self._world_size)[self._rank]
            yield mine if len(mine) else self._order[whole : whole + 1]

    def _share(self, step: int) -> float:
        size = self.size(step)
        if size == self._batch_size:
            return 1 / self._world_size
        return len(torch.arange(size).tensor_split(self._world_size)[self._rank]) / size

    def _batches(self) -> Iterator[list[MicroBatch]]:
        share, last_share = self._share(0), self._share(self.steps - 1)
        last = self.steps - 1
        for step, tensors in enumerate(self._fetched()):
            yield self._micro_batches(tensors, share if step != last else last_share)

    def _fetched(self) -> Iterator[Sequence[Tensor]]:
        if self._tensors is None:
            assert self._loader is not None
            yield from self._loader
            return
        for index in self.slices():
            yield [tensor.index_select(0, index) for tensor in self._tensors]

    def _micro_batches(self, tensors: Sequence[Tensor], share: float) -> list[MicroBatch]:
        if self._device.type != "cpu":
            tensors = [tensor.to(self._device, non_blocking=True) for tensor in tensors]
        items = len(tensors[-1])
        if self._accumulation == 1 or items == 1:
            return [MicroBatch(tensors[:-1], tensors[-1], share)]
        parts = zip(*(tensor.tensor_split(self._accumulation) for tensor in tensors), strict=True)
        return [MicroBatch(part[:-1], part[-1], share * len(part[-1]) / items) for part in parts if len(part[-1])]

    def _make_loader(self, dataset: Dataset[Any], workers: int) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            batch_sampler=_Slices(self),
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self._device.type == "cuda",
            # Its own: the loader would draw from the global one, and dropout would change with the loader.
            generator=torch.Generator().manual_seed(0),
        )


class _Slices:
    """The data loader's batch sampler: this rank's indices of each global batch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return self._batches.steps

    def __iter__(self) -> Iterator[list[int]]:
        return (index.tolist() for index in self._batches.slices())
