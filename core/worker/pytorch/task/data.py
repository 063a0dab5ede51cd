"""The global batches of an epoch, cut into this rank's micro-batches; and where data-loader workers have sockets."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import multiprocessing.util
import os
import socket
import tempfile
from collections.abc import MutableMapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ....language import tr
from ...streams import empty_data, limited_items, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

CUT_AT_ONCE = 1024
"""Steps whose indices are made at once: an epoch of millions of steps must not become millions of tensors."""
MAX_SOCKET_NAME = "pymp-xxxxxxxx/listener-xxxxxxxx"
"""A name at least as long as the ones that `multiprocessing` creates in a folder."""


def map_tensors(function: Callable[[Tensor], object], batch: Any) -> Any:  # noqa: ANN401 (any shape)
    """Return a batch of the same shape in which each tensor is replaced by the function's value.

    It goes into tuples, named tuples, lists, mappings (also such as Hugging Face's `BatchEncoding`) and dataclasses.
    """
    mapped: Any = batch
    if isinstance(batch, Tensor):
        mapped = function(batch)
    elif isinstance(batch, tuple) and hasattr(batch, "_fields"):
        mapped = type(batch)(*(map_tensors(function, each) for each in batch))
    elif isinstance(batch, (tuple, list)):
        mapped = type(batch)(map_tensors(function, each) for each in batch)
    elif isinstance(batch, MutableMapping):
        mapped = copy.copy(batch)  # keeps what the mapping's class adds
        for key, value in batch.items():
            mapped[key] = map_tensors(function, value)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        mapped = copy.copy(mapped)
        for field in dataclasses.fields(batch):
            # Not `replace`: a frozen class forbids the plain way, and `__post_init__` may expect other values.
            object.__setattr__(mapped, field.name, map_tensors(function, getattr(batch, field.name)))
    return mapped


def tensors_in(batch: Any) -> list[Tensor]:  # noqa: ANN401 (any shape)
    """Return the tensors of a batch, in the order of `map_tensors`."""
    found: list[Tensor] = []
    map_tensors(found.append, batch)
    return found


def rebuild(batch: Any, tensors: Sequence[Tensor]) -> Any:  # noqa: ANN401 (any shape)
    """Return a batch of the shape of `batch` with these tensors, which are in the order of `tensors_in`."""
    following = iter(tensors)
    return map_tensors(lambda _: next(following), batch)


def rebuilder(batch: Any) -> Callable[[Sequence[Tensor]], Any]:  # noqa: ANN401 (any shape)
    """Return `rebuild` for batches of this shape, which is faster where they are flat: it is called in each step."""
    if type(batch) in {tuple, list} and all(isinstance(each, Tensor) for each in batch):
        return type(batch)
    if type(batch) is dict and all(isinstance(each, Tensor) for each in batch.values()):
        names = tuple(batch)
        return lambda tensors: dict(zip(names, tensors, strict=True))
    return partial(rebuild, batch)


class MicroBatch(NamedTuple):
    """One forward and backward pass."""

    data: Any
    """The collated items, on the device: (inputs ..., target), or of any shape for a recipe's own steps."""
    share: float
    """Its items over the items of the global batch: the weight of its mean loss. All shares sum to 1."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The model's arguments, each of shape (items, ...)."""
        arguments: Sequence[Tensor] = self.data[:-1]
        return arguments

    @property
    def target(self) -> Tensor:
        """Shape (items, ...)."""
        target: Tensor = self.data[-1]
        return target


class Shares(NamedTuple):
    """How the items of a step are divided."""

    batch_size: int
    """Items of a whole global batch."""
    rank: int
    world_size: int
    accumulation: int

    def of(self, items: list[Any]) -> list[list[Any]]:
        """Return this rank's micro-batches of a step's items; one idle item on a rank that gets none."""
        start, size = part(len(items), self.rank, self.world_size)
        own = items[start : start + size] or items[:1]
        parts = min(self.accumulation, len(own))
        bounds = (part(len(own), number, parts) for number in range(parts))
        return [own[begin : begin + count] for begin, count in bounds]

    def own_items(self, items: int) -> int:
        """Return the number of this rank's items of a step with so many items."""
        return part(items, self.rank, self.world_size)[1]

    def share(self, items: int) -> float:
        """Return this rank's share of a step with so many items."""
        return self.own_items(items) / items


class NestedTensors(Dataset[Any]):
    """Tensors of equally many items in a shape of any kind, such as a dict. An item has the same shape."""

    def __init__(self, data: Any) -> None:  # noqa: ANN401 (any shape)
        self.data = data
        self.tensors = tensors_in(data)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 (of the data's shape)
        return rebuild(self.data, [each[index] for each in self.tensors])


def is_stream(data: object) -> bool:
    """Return whether data can only be read in order: an `IterableDataset`, a generator, or what only iterates."""
    if isinstance(data, IterableDataset):
        return True
    return hasattr(data, "__iter__") and not hasattr(data, "__getitem__") and not dataclasses.is_dataclass(data)


def as_dataset(data: object, function: str, *, any_shape: bool = False) -> Dataset[Any]:
    """Return what a recipe's function returned as a map-style dataset. Raises `TypeError` or `ValueError`.

    `any_shape`: its items are given to steps of the recipe's own, so they need not be (inputs ..., target).
    """
    if any_shape and not hasattr(data, "__getitem__") and not tensors_in(data):
        any_shape = False  # for the error below
    if any_shape and _holds_tensors(data):
        return _nested_dataset(data, function)
    if isinstance(data, tuple) and any(hasattr(part, "shape") for part in data):
        return _tensor_dataset(data, function)
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            tr(
                "{function}() returned {kind}. Return a map-style torch Dataset (with __len__ and __getitem__), a "
                "stream (an IterableDataset or a generator) or a tuple of tensors, inputs first, target last.",
                function=function,
                kind=type(data).__name__,
            )
        )
    dataset: Dataset[Any] = cast("Dataset[Any]", data)  # it need not be a subclass
    if len(dataset) == 0:  # type: ignore[arg-type]  # has __len__, as just checked
        raise empty_data(function, type(data).__name__)
    return dataset


def _holds_tensors(data: object) -> bool:
    """Return whether data are tensors in some shape, and no data set of items."""
    if isinstance(data, (torch.Tensor, tuple, dict)):
        return True
    if dataclasses.is_dataclass(data):
        return not hasattr(data, "__getitem__")
    return isinstance(data, MutableMapping) and bool(tensors_in(data))  # such as Hugging Face's `BatchEncoding`


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


def _nested_dataset(data: Any, function: str) -> NestedTensors:  # noqa: ANN401 (any shape)
    found = tensors_in(data)
    sizes = [len(each) if each.ndim else 0 for each in found]
    if not sizes or len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(
            tr(
                "{function}() returned {kind} with tensors of {sizes} items. Each must have as many as the others, at "
                "least one.",
                function=function,
                kind=type(data).__name__,
                sizes=sizes,
            )
        )
    return NestedTensors(data)


def checked(batch: object) -> Sequence[Tensor]:
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
            "Without training_step(), each item must be a tuple of two or more tensors or numbers: the model's inputs "
            "first, the target last.",
            kind=type(batch).__name__,
            kinds=kinds,
        )
    )


def prepared(device: torch.device, *, any_shape: bool) -> Callable[[Any], Any]:
    """Return a function that checks a collated batch, unless it may have any shape, and moves it to the device."""

    def prepare(batch: Any) -> Any:  # noqa: ANN401 (any shape)
        batch = batch if any_shape else checked(batch)
        if device.type == "cpu":
            return batch
        return map_tensors(lambda each: each.to(device, non_blocking=True), batch)

    return prepare


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
        any_shape: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        steps: int | None = None,
    ) -> None:
        """`any_shape`: batches need not be (inputs ..., target). `collate`: makes a batch of a list of items.

        `steps`: of an epoch; None for all items. Raises `ValueError` if there are fewer.
        """
        self._all_items = len(dataset)  # type: ignore[arg-type]  # see as_dataset
        self.items = limited_items(self._all_items, batch_size, steps)
        self.steps = -(-self.items // batch_size)
        self._batch_size, self._rank, self._world_size, self._accumulation = batch_size, rank, world_size, accumulation
        self._shares = Shares(batch_size, rank, world_size, accumulation)
        self.device = device
        self._order = torch.arange(self.items)
        self._skip = 0
        self.prepare = prepared(device, any_shape=any_shape)
        self._seed = seed
        self._loader: DataLoader[Any] | None = None
        self._tensors: Sequence[Tensor] = ()
        self._shape: Any = None
        if isinstance(dataset, (TensorDataset, NestedTensors)) and not loader_workers and collate is None:
            self._tensors = dataset.tensors
            self._shape = dataset.data if isinstance(dataset, NestedTensors) else None
        else:
            self._loader = DataLoader(
                dataset,
                batch_sampler=_MicroSlices(self),
                collate_fn=collate,
                num_workers=loader_workers,
                persistent_workers=loader_workers > 0,
                pin_memory=device.type == "cuda",
                # Without a generator the loader draws from the global one, and dropout would change with the loader.
                # The loader's workers are seeded from it: fixed by the run's seed, different on each rank.
                generator=torch.Generator().manual_seed(spread(seed, rank)),
            )

    def shuffled(self, epoch: int, skip: int = 0) -> Iterator[list[MicroBatch]]:
        """Yield the micro-batches of each step of an epoch. Seed and epoch fix the order, for any number of ranks.

        `skip`: the first steps to leave out, because they were trained before a checkpoint.
        """
        generator = torch.Generator().manual_seed(spread(self._seed, epoch))
        self._order = torch.randperm(self._all_items, generator=generator)[: self.items]
        return self._batches(skip)

    def in_order(self) -> Iterator[list[MicroBatch]]:
        """Yield the dataset once, unshuffled."""
        self._order = torch.arange(self.items)
        return self._batches()

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

    def micro_slices(self) -> Iterator[Tensor]:
        """Yield the indices of this rank's items by micro-batch."""
        if self._accumulation == 1:
            yield from self.slices()
            return
        for index in self.slices():
            yield from (part for part in index.tensor_split(self._accumulation) if len(part))

    def _batches(self, skip: int = 0) -> Iterator[list[MicroBatch]]:
        self._skip = skip
        last = self.steps - 1
        share, last_share = (self._shares.share(self.size(step)) for step in (0, last))
        every = self._selected() if self._loader is None else self._loaded()
        for step in range(skip, self.steps):
            own = share if step != last else last_share
            if self._accumulation == 1:
                yield [MicroBatch(next(every)[0], own)]
                continue
            mine = self._shares.own_items(self.size(step)) or 1  # an idle item
            parts = list(islice(every, min(self._accumulation, mine)))
            items = sum(count for _, count in parts)
            yield [MicroBatch(batch, own * count / items) for batch, count in parts]
        assert next(every, None) is None  # the loader's workers learn that the epoch is over

    def _selected(self) -> Iterator[tuple[Any, int]]:
        """Yield the micro-batches of data that are tensors, and their numbers of items."""
        make = None if self._shape is None else rebuilder(self._shape)
        moves = self.device.type != "cpu"
        for index in self.micro_slices():
            tensors = [tensor.index_select(0, index) for tensor in self._tensors]
            if moves:
                tensors = self.prepare(tensors)
            yield tensors if make is None else make(tensors), len(index)

    def _loaded(self) -> Iterator[tuple[Any, int]]:
        """Yield the micro-batches of the data loader, and their numbers of items."""
        assert self._loader is not None
        for batch, index in zip(self._loader, self.micro_slices(), strict=True):
            yield self.prepare(batch), len(index)


def spread(seed: int, number: int) -> int:
    """Return a different seed for each seed and number, within torch's range."""
    return (seed * 1_000_003 + number) % 2**63


class _MicroSlices:
    """The data loader's batch sampler: this rank's indices of each micro-batch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return (index.tolist() for index in self._batches.micro_slices())


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
