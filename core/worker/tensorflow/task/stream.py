"""Global batches of data that are read item by item: lists of items, streams of Python, endless `tf.data.Dataset`s."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ....language import tr
from ...streams import StreamRandomness, empty_data, limited_items, stream_steps, too_short
from .data import HOST, Batches, check_spec, has_free_sizes, permutation, read_ahead, spread, whole_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ....schema.settings import Training
    from .data import Feed

    Collate = Callable[[list[Any]], Any]


def batches_of(
    data: Any,  # noqa: ANN401 (whatever the recipe returns)
    function: str,
    training: Training,
    *,
    any_shape: bool,
    collate: Collate | None,
    again: Callable[[], Any],
) -> Batches:
    """Return what this function of a recipe returned in global batches. Raises `TypeError` and `ValueError`.

    `any_shape`: its items need not be (inputs ..., target). `again`: calls the function again.
    """
    trains = function == "train_data"
    steps = training.steps_per_epoch if trains else None
    shared: dict[str, Any] = {"batch_size": training.batch_size, "seed": training.seed, "any_shape": any_shape}
    is_dataset = isinstance(data, tf.data.Dataset)
    if is_dataset and int(data.cardinality()) < 0:
        _refuse_collate(function, collate)
        return DatasetStream(data, function, steps=_dataset_steps(data, function, steps, trains=trains), **shared)
    if not is_dataset and _is_items(data, any_shape=any_shape, collates=collate is not None):
        return ItemBatches(data, function, steps=steps, collate=collate, **shared)
    if not is_dataset and hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        # A generator, or another iterator, can be read only once.
        source = again if isinstance(data, Iterator) else lambda: data
        steps = stream_steps(data, training) if trains else None
        return PythonStream(source, function, steps=steps, collate=collate, **shared)
    _refuse_collate(function, collate)
    return Batches(data, function, steps=steps, **shared)


def _is_items(data: Any, *, any_shape: bool, collates: bool) -> bool:  # noqa: ANN401 (as above)
    """Return whether data are a list of items, and not arrays with all items in each."""
    if isinstance(data, (tuple, Mapping)) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return False
    if hasattr(data, "shape"):
        return False
    are_arrays = isinstance(data, list) and all(hasattr(each, "shape") for each in data)
    return any_shape or collates or not are_arrays


def _refuse_collate(function: str, collate: Collate | None) -> None:
    if collate is not None:
        raise ValueError(
            tr(
                "{function}() returned arrays or a tf.data.Dataset, of which TensorFlow makes the batches, so that "
                "collate() is not called. Remove collate(), or return a list or a generator of items.",
                function=function,
            )
        )


def _dataset_steps(data: tf.data.Dataset, function: str, steps: int | None, *, trains: bool) -> int | None:
    """Return the steps of an epoch of a data set without a known size; None to its end."""
    endless = int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
    if not trains and endless:
        raise ValueError(
            tr(
                "{function}() returned an endless tf.data.Dataset, but a validation reads its data to the end. "
                "Remove repeat().",
                function=function,
            )
        )
    if not trains or steps is not None:
        return steps
    if endless:
        raise ValueError(
            tr(
                "{function}() returned an endless tf.data.Dataset. Remove repeat(), or give the number of steps per "
                "epoch (--steps-per-epoch N).",
                function=function,
            )
        )
    raise ValueError(
        tr(
            "{function}() returned a tf.data.Dataset of unknown size. Give the number of steps per epoch "
            "(--steps-per-epoch N), or set its size: "
            "dataset.apply(tf.data.experimental.assert_cardinality(items)).",
            function=function,
        )
    )


class StreamBatches(Batches):
    """Data whose tensors are read step by step, instead of the whole data set."""

    def __init__(  # nothing of the base's: that is about a whole data set
        self, function: str, *, batch_size: int, seed: int, any_shape: bool, steps: int | None, items: int = 0
    ) -> None:
        """`steps`: of an epoch; None for a validation, which reads to the end. `items`: of an epoch, if known."""
        self.dataset: tf.data.Dataset | None = None
        self.arrays: Feed = ()
        self.varies = True
        self.batch_size, self.steps = batch_size, steps or 0
        self.items = items or self.steps * batch_size
        self._function, self._limit, self._seed, self._any_shape = function, steps, seed, any_shape
        self._like: Any = None
        """A batch, for its structure; None before the first."""

    def shuffled(self, epoch: int, skip: int = 0) -> Iterator[Feed]:
        """Yield the steps of an epoch without the first `skip`."""
        return self._checked(self._epoch(epoch, skip), skip)

    def in_order(self) -> Iterator[Feed]:
        """Yield the data once."""
        return self._checked(self._epoch(0, 0), 0)

    def _epoch(self, epoch: int, skip: int) -> Iterator[Feed]:
        """Yield the steps of an epoch without the first `skip`, `steps` at most."""
        raise NotImplementedError

    def _checked(self, feeds: Iterator[Feed], skip: int) -> Iterator[Feed]:
        count = skip
        for feed in feeds:
            count += 1
            yield feed
        if count < (self._limit or 1):
            raise too_short(self._function, steps=count, batch_size=self.batch_size, wanted=self._limit)


class DatasetStream(StreamBatches):
    """A `tf.data.Dataset` of unknown or endless size, in its own order.

    Epochs of an endless one follow each other; any other begins again.
    """

    def __init__(self, dataset: tf.data.Dataset, function: str, **shared: Any) -> None:  # noqa: ANN401 (of the base)
        super().__init__(function, **shared)
        check_spec(dataset, function, any_shape=self._any_shape)
        self.dataset = dataset
        self.varies = has_free_sizes(dataset)
        self._like = dataset.element_spec
        self._endless = int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
        self._begun = 0
        self._iterator: Any = None
        self._next_step = 0

    def sample(self) -> Feed:
        assert self.dataset is not None
        for batch in self.dataset.take(1).batch(1):
            return tuple(tf.nest.flatten(batch))
        raise too_short(self._function, steps=0, batch_size=self.batch_size, wanted=self._limit)

    def _epoch(self, epoch: int, skip: int) -> Iterator[Feed]:
        if self._endless:
            return self._following(epoch * self.steps + skip, self.steps - skip)
        assert self.dataset is not None
        # A data set that shuffles draws a new order when it is read again: a resumed run must draw as often.
        while self._begun < epoch:
            iter(self.dataset)
            self._begun += 1
        self._begun += 1
        items = self.dataset.skip(skip * self.batch_size)
        if self._limit is not None:
            items = items.take((self._limit - skip) * self.batch_size)
        return self._feeds(items)

    def _following(self, start: int, steps: int) -> Iterator[Feed]:
        """Yield so many steps of an endless data set from step `start` of the training on."""
        assert self.dataset is not None
        if self._iterator is None or self._next_step != start:
            self._iterator = self._feeds(self.dataset.skip(start * self.batch_size))
            self._next_step = start
        for _ in range(steps):
            self._next_step += 1
            yield next(self._iterator)

    def _feeds(self, items: tf.data.Dataset) -> Iterator[Feed]:
        batches = read_ahead(whole_batches(items, self.batch_size))
        return (tuple(tf.nest.flatten(batch)) for batch in batches)


class CollatedBatches(StreamBatches):
    """Batches that are made of items in Python, with the recipe's `collate` or by stacking the items."""

    def __init__(self, function: str, *, collate: Collate | None, **shared: Any) -> None:  # noqa: ANN401 (of the base)
        super().__init__(function, **shared)
        self._collate = collate or self._stacked
        self._collated_by = "collate" if collate else function
        self._first: list[Any] = []

    def specs(self) -> tuple[tf.TensorSpec, ...]:
        """Return a batch's specification: sizes in which the first items differ are left open."""
        alone = [self._feed([item]) for item in self._first_items()]
        shapes = zip(*([tuple(each.shape)[1:] for each in feed] for feed in alone), strict=True)
        specs = []
        for tensor, of_one in zip(alone[0], shapes, strict=True):
            sizes = [each[0] if len(set(each)) == 1 else None for each in zip(*of_one, strict=True)]
            specs.append(tf.TensorSpec([None, *sizes], tensor.dtype))
        return tuple(specs)

    def sample(self) -> Feed:
        return self._feed(self._first_items()[:1])

    def _first_items(self) -> list[Any]:
        """Return the items of a first batch, read once. Raises `ValueError` if there are none."""
        if not self._first:
            self._first = self._read_first()
            if not self._first:
                raise too_short(self._function, steps=0, batch_size=self.batch_size, wanted=self._limit)
        return self._first

    def _read_first(self) -> list[Any]:
        raise NotImplementedError

    def _feed(self, items: list[Any]) -> Feed:
        """Return the tensors of a batch of these items. Raises `TypeError` and `ValueError`."""
        batch = self._collate(items)
        if self._like is None:
            if not self._any_shape:
                self._check_pair(batch)
            self._like = batch
        elif not _alike(self._like, batch):
            raise ValueError(
                tr(
                    "{function}() gave a batch of another structure than the first. It must give the same names and "
                    "parts for every batch.",
                    function=self._collated_by,
                )
            )
        feed = tuple(self._tensor(each) for each in tf.nest.flatten(batch))
        sizes = [int(each.shape[0]) if each.shape.rank else 0 for each in feed]
        if not feed or set(sizes) != {len(items)}:
            raise ValueError(
                tr(
                    "{function}() gave a batch of {items} items with tensors of {sizes}. Each tensor's first dimension "
                    "must be the items, because the devices divide the batch along it.",
                    function=self._collated_by,
                    items=len(items),
                    sizes=sizes,
                )
            )
        return feed

    def _tensor(self, value: Any) -> tf.Tensor:  # noqa: ANN401 (whatever the recipe gives)
        try:
            with tf.device(HOST):
                return tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                tr(
                    "{function}() gave a batch with {kind}, which TensorFlow cannot convert to a tensor: {error}. Give "
                    "arrays or tensors.",
                    function=self._collated_by,
                    kind=type(value).__name__,
                    error=error,
                )
            ) from error

    def _stacked(self, items: list[Any]) -> Any:  # noqa: ANN401 (of the items' shape)
        try:
            return tf.nest.map_structure(lambda *parts: np.stack([np.asarray(part) for part in parts]), *items)
        except (TypeError, ValueError) as error:
            raise ValueError(
                tr(
                    "The items of {function}() cannot be stacked to a batch: {error}. Give them equal shapes, or give "
                    "the recipe collate(items), which returns a batch.",
                    function=self._function,
                    error=str(error).partition("\n")[0],
                )
            ) from error

    def _check_pair(self, batch: Any) -> None:  # noqa: ANN401 (whatever the recipe gives)
        if not isinstance(batch, (tuple, list)) or len(batch) < 2 or any(map(tf.nest.is_nested, batch)):
            raise TypeError(
                tr(
                    "{function}() gave a batch of the type {kind}. Without training_step(), a batch must be a tuple of "
                    "two or more tensors: the model's inputs first, the target last.",
                    function=self._collated_by,
                    kind=type(batch).__name__,
                )
            )


def _alike(one: Any, other: Any) -> bool:  # noqa: ANN401 (any shape)
    try:
        tf.nest.assert_same_structure(one, other)
    except (TypeError, ValueError):
        return False
    return True


class ItemBatches(CollatedBatches):
    """A list of items, or another object with `__len__` and `__getitem__`. Seed and epoch fix the order."""

    def __init__(
        self,
        data: Sequence[Any],
        function: str,
        *,
        steps: int | None,
        batch_size: int,
        **shared: Any,  # noqa: ANN401 (of the base)
    ) -> None:
        if not len(data):
            raise empty_data(function, type(data).__name__)
        items = limited_items(len(data), batch_size, steps)
        steps = -(-items // batch_size)
        super().__init__(function, steps=steps, items=items, batch_size=batch_size, **shared)
        self._data = data

    def in_order(self) -> Iterator[Feed]:
        """Yield the data once, unshuffled."""
        return self._cut(range(len(self._data)), 0)

    def _epoch(self, epoch: int, skip: int) -> Iterator[Feed]:
        return self._cut(permutation(len(self._data), self._seed, epoch).numpy().tolist(), skip)

    def _cut(self, order: Sequence[int], skip: int) -> Iterator[Feed]:
        for start in range(skip * self.batch_size, self.items, self.batch_size):
            chosen = order[start : min(start + self.batch_size, self.items)]
            yield self._feed([self._data[index] for index in chosen])

    def _read_first(self) -> list[Any]:
        return [self._data[index] for index in range(min(self.batch_size, len(self._data)))]


class PythonStream(CollatedBatches):
    """A generator, or any object that is iterated, in its own order. Each epoch reads it from its beginning.

    Every worker reads the whole stream, and each device takes its slice of a batch. An epoch begins with random states
    of Python and numpy that only the seed and the epoch fix, so that a stream that draws from them has one order on all
    workers, and again in a resumed run.
    """

    def __init__(self, source: Callable[[], Iterable[Any]], function: str, **shared: Any) -> None:  # noqa: ANN401 (of the base)
        """`source`: returns the stream for an epoch."""
        super().__init__(function, **shared)
        self._source = source

    def _epoch(self, epoch: int, skip: int) -> Iterator[Feed]:
        following = self._items(epoch, skip)
        for items in islice(following, None if self._limit is None else self._limit - skip):
            yield self._feed(items)

    def _items(self, epoch: int, skip: int) -> Iterator[list[Any]]:
        """Yield the items of each step from step `skip` on."""
        states = StreamRandomness(spread(self._seed, epoch))
        with states.own():
            stream = self._source()
            if hasattr(stream, "set_epoch"):
                stream.set_epoch(epoch)
            reading = iter(stream)
            for _ in islice(reading, skip * self.batch_size):
                pass
        while True:
            with states.own():
                items = list(islice(reading, self.batch_size))
            if not items:
                return
            yield items

    def _read_first(self) -> list[Any]:
        return next(self._items(0, 0), [])
