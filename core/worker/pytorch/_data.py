"""The global batches of an epoch, cut into this rank's micro-batches; and where data-loader workers have sockets."""

from __future__ import annotations

import contextlib
import multiprocessing.util
import os
import socket
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ...language import tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

CUT_AT_ONCE = 1024
"""Steps whose indices are made at once: an epoch of millions of steps must not become millions of tensors."""
MAX_SOCKET_NAME = "pymp-xxxxxxxx/listener-xxxxxxxx"
"""A name at least as long as the ones that `multiprocessing` creates in a folder."""


class MicroBatch(NamedTuple):
    """One forward and backward pass."""

    inputs: Sequence[Tensor]
    """The model's arguments, each of shape (items, ...)."""
    target: Tensor
    """Shape (items, ...)."""
    share: float
    """Its items over the items of the global batch: the weight of its mean loss. All shares sum to 1."""


def as_dataset(data: object, function: str) -> Dataset[Any]:
    """Return what a recipe's function returned as a map-style dataset. Raises `TypeError` or `ValueError`."""
    if isinstance(data, tuple) and any(hasattr(part, "shape") for part in data):
        return _tensor_dataset(data, function)
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            tr(
                "{function}() returned {kind}. Return a map-style torch Dataset "
                "(with __len__ and __getitem__) or a tuple of tensors, inputs first, target last.",
                function=function,
                kind=type(data).__name__,
            )
        )
    dataset: Dataset[Any] = cast("Dataset[Any]", data)  # it need not be a subclass
    if len(dataset) == 0:  # type: ignore[arg-type]  # has __len__, as just checked
        raise ValueError(
            tr(
                "{function}() returned an empty {kind}. There is nothing to train on.",
                function=function,
                kind=type(data).__name__,
            )
        )
    return dataset


def _tensor_dataset(data: Sequence[Any], function: str) -> TensorDataset:
    kinds = ", ".join(type(part).__name__ for part in data)
    if len(data) < 2 or not all(isinstance(part, torch.Tensor) for part in data):
        raise TypeError(
            tr(
                "{function}() returned ({kinds}). Return two or more tensors, inputs first, target last; "
                "torch.from_numpy() makes a tensor of an array.",
                function=function,
                kinds=kinds,
            )
        )
    sizes = [len(part) for part in data]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(
            tr(
                "{function}() returned tensors of {sizes} items. Return as many targets as inputs, at least one.",
                function=function,
                sizes=sizes,
            )
        )
    return TensorDataset(*data)


def _checked(batch: object) -> Sequence[Tensor]:
    """Return a batch of a data loader. Raises `TypeError` unless it is (inputs ..., target)."""
    if isinstance(batch, (tuple, list)) and len(batch) > 1 and all(isinstance(part, torch.Tensor) for part in batch):
        return batch
    kinds = (
        tr(" of {kinds}", kinds=", ".join(type(part).__name__ for part in batch))
        if isinstance(batch, (tuple, list))
        else ""
    )
    raise TypeError(
        tr(
            "A batch of the dataset has the type {kind}{kinds}. "
            "Each item must be a tuple of two or more tensors or numbers: the model's inputs first, the target last.",
            kind=type(batch).__name__,
            kinds=kinds,
        )
    )


class Batches:
    """A dataset in global batches, of which this rank takes its contiguous slice.

    One rank and many therefore see the same items in the same optimizer step. A last batch that does not divide evenly
    is weighted by its size. A rank that gets no item of it trains on one item with share 0, because every rank must
    take part in every step.

    `batch_size` is a multiple of `world_size * accumulation`; `core.config.validation.problems` checks that.
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
        seed: int = 0,
    ) -> None:
        self.items = len(dataset)  # type: ignore[arg-type]  # see as_dataset
        self.steps = -(-self.items // batch_size)
        self._batch_size = batch_size
        self._rank, self._world_size, self._accumulation = rank, world_size, accumulation
        self.device = device
        self._moves = device.type != "cpu"
        self._order = torch.arange(self.items)
        self._skip = 0
        self._tensors = dataset.tensors if isinstance(dataset, TensorDataset) and not loader_workers else None
        self._seed = seed
        self._loader = None if self._tensors else self._make_loader(dataset, loader_workers)

    def shuffled(self, epoch: int, skip: int = 0) -> Iterator[list[MicroBatch]]:
        """Yield the micro-batches of each step of an epoch. Seed and epoch fix the order, for any number of ranks.

        `skip`: the first steps to leave out, because they were trained before a checkpoint.
        """
        generator = torch.Generator().manual_seed(spread(self._seed, epoch))
        self._order = torch.randperm(self.items, generator=generator)
        return self._batches(skip)

    def in_order(self) -> Iterator[list[MicroBatch]]:
        """Yield the dataset once, unshuffled."""
        self._order = torch.arange(self.items)
        return self._batches()

    @property
    def skipped(self) -> int:
        """Steps that the current epoch leaves out."""
        return self._skip

    def size(self, step: int) -> int:
        """Return the number of items of a global batch: the last may have fewer."""
        return min(self._batch_size, self.items - step * self._batch_size)

    def slices(self) -> Iterator[Tensor]:
        """Yield the indices of this rank's items by step. Many are cut at once, since each cut costs microseconds."""
        first = self._skip * self._batch_size
        whole = self.items // self._batch_size * self._batch_size
        for many in self._order[first:whole].split(self._batch_size * CUT_AT_ONCE):  # type: ignore[no-untyped-call]
            yield from many.view(-1, self._world_size, self._batch_size // self._world_size)[:, self._rank].unbind()
        if whole < self.items and first < self.items:
            mine = self._order[whole:].tensor_split(self._world_size)[self._rank]
            yield mine if len(mine) else self._order[whole : whole + 1]

    def _share(self, step: int) -> float:
        size = self.size(step)
        if size == self._batch_size:
            return 1 / self._world_size
        least, more = divmod(size, self._world_size)  # as `tensor_split` in `slices` divides them
        return (least + (self._rank < more)) / size

    def _batches(self, skip: int = 0) -> Iterator[list[MicroBatch]]:
        self._skip = skip
        share, last_share = self._share(0), self._share(self.steps - 1)
        last = self.steps - 1
        for step, tensors in enumerate(self._fetched(), start=skip):
            yield self._micro_batches(tensors, share if step != last else last_share)

    def _fetched(self) -> Iterator[Sequence[Tensor]]:
        if self._tensors is None:
            assert self._loader is not None
            yield from map(_checked, self._loader)
            return
        for index in self.slices():
            yield [tensor.index_select(0, index) for tensor in self._tensors]

    def _micro_batches(self, tensors: Sequence[Tensor], share: float) -> list[MicroBatch]:
        if self._moves:
            tensors = [tensor.to(self.device, non_blocking=True) for tensor in tensors]
        if self._accumulation == 1:
            return [MicroBatch(tensors[:-1], tensors[-1], share)]
        items = len(tensors[-1])
        parts = zip(*(tensor.tensor_split(self._accumulation) for tensor in tensors), strict=True)
        return [MicroBatch(part[:-1], part[-1], share * len(part[-1]) / items) for part in parts if len(part[-1])]

    def _make_loader(self, dataset: Dataset[Any], workers: int) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            batch_sampler=_Slices(self),
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.device.type == "cuda",
            # Without a generator the loader draws from the global one, and dropout would change with the loader.
            # The loader's workers are seeded from it: fixed by the run's seed, different on each rank.
            generator=torch.Generator().manual_seed(spread(self._seed, self._rank)),
        )


def spread(seed: int, number: int) -> int:
    """Return a different seed for each seed and number, within torch's range."""
    return (seed * 1_000_003 + number) % 2**63


class _Slices:
    """The data loader's batch sampler: this rank's indices of each global batch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return self._batches.steps - self._batches.skipped

    def __iter__(self) -> Iterator[list[int]]:
        return (index.tolist() for index in self._batches.slices())


def share_socket_folder(run_dir: Path) -> None:
    """Make one folder for the sockets over which data-loader workers send tensors, below `run_dir` where possible.

    Call it before the first data-loader worker starts. Without it, each worker makes a folder of its own in the
    system's temporary one (`multiprocessing.util.get_temp_dir`), which stays for ever when a signal ends the worker.
    Workers inherit this process's folder, and its exit removes it. If this process is killed, the run's guard removes
    it, or the supervisor that resumes the run (`core.supervisor.claim`).
    """
    before = tempfile.tempdir
    if _takes_sockets(run_dir):
        tempfile.tempdir = str(run_dir)
    try:
        multiprocessing.util.get_temp_dir()
    finally:
        tempfile.tempdir = before


def _takes_sockets(folder: Path) -> bool:
    """Return whether its file system has sockets, and its path fits into the 108 bytes of a socket's address."""
    own = f"probe-{os.getpid()}-"  # several ranks probe at once
    path = str(folder / (own + MAX_SOCKET_NAME.replace("/", "-")[len(own) :]))
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.bind(path)
        os.unlink(path)  # noqa: PTH108 (`bind` takes a string)
        return True
    return False
