"""The global batches of an epoch, in an order that depends only on the seed and the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ....language import tr, tr_noop
from ...streams import empty_data, limited_items, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    Feed = tuple[tf.Tensor, ...]
    """The arguments of a step's function: each of shape (items of the global batch, ...)."""

HOST = "/cpu:0"
"""The device that holds the data sets and coordinates."""
CUT_AT_ONCE = 1024
"""Steps whose indices are made at once: an epoch of millions of steps must not become millions of tensors."""
AHEAD = 2
"""Batches to prepare ahead."""
SHUFFLE_BUFFER = 10_000
"""Items among which a `tf.data.Dataset` is shuffled: it can only be read in order."""

WHAT_TO_RETURN = tr_noop(
    "Return a tuple of arrays or tensors, inputs first, target last, or an unbatched tf.data.Dataset of such tuples. "
    "With training_step(), the data may have any shape."
)
WHAT_A_STEP_TAKES = tr_noop(
    "Return arrays or tensors with the same number of items in a tuple or a dict, an unbatched tf.data.Dataset, a list "
    "of items, or a stream of items."
)


class Batches:
    """A data set in global batches.

    Arrays stay in the host's memory. A batch of them is passed as indices, and the step's function gathers the items
    (`tensors`), each device its own slice. A `tf.data.Dataset` is read batch by batch. Seed and epoch fix both orders:
    one device and many see the same batches.
    """

    def __init__(
        self,
        data: object,
        function: str,
        *,
        batch_size: int,
        seed: int = 0,
        steps: int | None = None,
        any_shape: bool = False,
    ) -> None:
        """`data`: what this function of the recipe returned. Raises `TypeError` and `ValueError`.

        `steps`: of an epoch; None for all items. `any_shape`: items need not be (inputs ..., target).
        """
        self.dataset = data if isinstance(data, tf.data.Dataset) else None
        self.arrays = () if self.dataset is not None else _as_tensors(data, function, any_shape=any_shape)
        """The whole data set, inputs first, target last, or of any shape; empty for a `tf.data.Dataset`."""
        self._like = data if self.dataset is None else self.dataset.element_spec
        if self.dataset is not None:
            check_spec(self.dataset, function, any_shape=any_shape)
        self._all_items: int = len(self.arrays[0]) if self.dataset is None else _cardinality(self.dataset, function)
        self.items = limited_items(self._all_items, batch_size, steps)
        """Items of an epoch."""
        self.batch_size = batch_size
        self.steps = -(-self.items // batch_size)
        self.varies = self.dataset is not None and has_free_sizes(self.dataset)
        """Whether two batches may have tensors of different lengths."""
        self._seed = seed

    def shuffled(self, epoch: int, skip: int = 0) -> Iterator[Feed]:
        """Yield one epoch in the order fixed by its number and the seed, without its first `skip` steps."""
        if self.dataset is not None:
            return self._read(self.mixed(epoch), skip)
        return self._cut(self.order(epoch), skip)

    def order(self, epoch: int | tf.Tensor) -> tf.Tensor:
        """Return the arrays' indices in an epoch's order. `epoch` may be an int64 tensor of `tf.data`."""
        return permutation(self._all_items, self._seed, epoch)[: self.items]

    def mixed(self, epoch: int | tf.Tensor) -> tf.data.Dataset:
        """Return the `tf.data.Dataset` in an epoch's order."""
        assert self.dataset is not None
        seed, spec = tf.cast(spread(self._seed, epoch), tf.int64), self.dataset.element_spec
        # The operation of `self.dataset.shuffle`, which accepts a tensor as seed only if the global seed is not 0.
        mixed = tf.raw_ops.ShuffleDataset(
            input_dataset=tf.data.experimental.to_variant(self.dataset),
            buffer_size=min(self._all_items, SHUFFLE_BUFFER),
            seed=seed % 2**31,
            seed2=seed // 2**31 + 1,  # two zeros would mean a different order each time
            output_types=[each.dtype for each in tf.nest.flatten(spec)],
            output_shapes=[each.shape for each in tf.nest.flatten(spec)],
            reshuffle_each_iteration=False,
        )
        return tf.data.experimental.from_variant(mixed, spec)

    def in_order(self) -> Iterator[Feed]:
        """Yield the data set once, unshuffled."""
        if self.dataset is not None:
            return self._read(self.dataset, 0)
        with tf.device(HOST):
            return self._cut(tf.range(self.items), 0)

    def tensors(self, feed: Feed) -> Feed:
        """Return the tensors of a feed: the model's inputs and the target. Used inside a step's function."""
        if not self.arrays:
            return feed
        with tf.device(HOST):
            return gather(self.arrays, feed)

    def target(self, feed: Feed) -> tf.Tensor:
        """Return the target of a feed alone."""
        if not self.arrays:
            return feed[-1]
        with tf.device(HOST):
            return tf.gather(self.arrays[-1], feed[0])

    def packed(self, tensors: Feed) -> Any:  # noqa: ANN401 (of the data's shape)
        """Return a batch in the shape of the recipe's data."""
        return tf.nest.pack_sequence_as(self._like, tensors)

    def specs(self) -> tuple[tf.TensorSpec, ...]:
        """Return a batch's specification, inputs first, target last, for any number of items."""
        arrays = tuple(tf.TensorSpec(array.shape[1:], array.dtype) for array in self.arrays)
        one = arrays if self.dataset is None else tf.nest.flatten(self.dataset.element_spec)
        return tuple(tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in one)

    def sample(self) -> Feed:
        """Return the tensors of a batch of one item."""
        if self.dataset is None:
            return tuple(array[:1] for array in self.arrays)
        return tuple(tf.nest.flatten(next(iter(self.dataset.take(1).batch(1)))))

    def _cut(self, order: tf.Tensor, skip: int) -> Iterator[Feed]:
        """Yield the indices of each step's items. Many are cut at once, since each cut costs microseconds."""
        whole = self.items // self.batch_size
        for start in range(skip, whole, CUT_AT_ONCE):
            many = order[start * self.batch_size : min(start + CUT_AT_ONCE, whole) * self.batch_size]
            for index in tf.unstack(tf.reshape(many, [-1, self.batch_size])):
                yield (index,)
        if whole < self.steps and skip < self.steps:
            yield (order[whole * self.batch_size :],)

    def _read(self, dataset: tf.data.Dataset, skip: int) -> Iterator[Feed]:
        items = dataset.skip(skip * self.batch_size)
        if self.items < self._all_items:
            items = items.take(self.items - skip * self.batch_size)
        return (tuple(tf.nest.flatten(batch)) for batch in read_ahead(whole_batches(items, self.batch_size)))


def whole_batches(items: tf.data.Dataset, size: int) -> tf.data.Dataset:
    """Return items in batches. Where lengths are not known, each is padded to the longest of its batch."""
    return items.padded_batch(size) if has_free_sizes(items) else items.batch(size)


def has_free_sizes(items: tf.data.Dataset) -> bool:
    """Return whether items have dimensions of unknown size."""
    shapes = [spec.shape for spec in tf.nest.flatten(items.element_spec)]
    return all(shape.rank is not None for shape in shapes) and any(None in shape.as_list() for shape in shapes)


def permutation(items: int, seed: int, epoch: int | tf.Tensor) -> tf.Tensor:
    """Return the indices of so many items in an epoch's order."""
    mixed = spread(seed, epoch)
    with tf.device(HOST):
        return tf.random.experimental.stateless_shuffle(tf.range(items), seed=[mixed % 2**31, mixed // 2**31])


def read_ahead(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prepare some batches during a step."""
    options = tf.data.Options()
    # Autotune's thread sleeps for up to a minute, even when the data set is released: training would end slowly.
    options.autotune.enabled = False
    return batches.prefetch(AHEAD).with_options(options)


def slice_of(feed: Feed, number: int, parts: int) -> tuple[Feed, float]:
    """Return one of `parts` contiguous slices of a global batch, and its share of the items.

    All shares add up to 1. A device that gets no item of a small last batch takes one with share 0, because all
    devices must take part in every step.
    """
    items = int(feed[0].shape[0])
    start, size = part(items, number, parts)
    if not size:
        return tuple(each[:1] for each in feed), 0.0
    return tuple(each[start : start + size] for each in feed), size / items


def gather(arrays: Feed, feed: Feed) -> Feed:
    """Return the arrays' items at the indices in the feed."""
    (index,) = feed
    return tuple(tf.gather(array, index) for array in arrays)


def spread(seed: int, number: Any) -> Any:  # noqa: ANN401 (a number, or a tensor of type int64)
    """Return a different seed for each seed and number, within TensorFlow's range."""
    return (seed * 1_000_003 % 2**62 + number) % 2**62


def _as_tensors(data: Any, function: str, *, any_shape: bool) -> tuple[tf.Tensor, ...]:  # noqa: ANN401 (a recipe's)
    is_one = any_shape and (isinstance(data, Mapping) or hasattr(data, "shape"))
    is_right = isinstance(data, (tuple, list)) or is_one
    parts = tf.nest.flatten(data) if any_shape else data
    if not is_right or len(parts) < (1 if any_shape else 2) or not all(hasattr(part, "shape") for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts) if is_right else ""
        raise TypeError(
            tr(
                "{function}() returned {kind}. {remedy}",
                function=function,
                kind=f"({kinds})" if is_right else type(data).__name__,
                remedy=tr(WHAT_A_STEP_TAKES if any_shape else WHAT_TO_RETURN),
            )
        )
    sizes = [int(part.shape[0]) if len(part.shape) else 0 for part in parts]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(
            tr(
                "{function}() returned arrays of {sizes} items. Return as many targets as inputs, at least one.",
                function=function,
                sizes=sizes,
            )
        )
    return tuple(_on_host(part, function) for part in parts)


def _on_host(array: Any, function: str) -> tf.Tensor:  # noqa: ANN401 (numpy's or TensorFlow's)
    try:
        with tf.device(HOST):
            return tf.identity(tf.convert_to_tensor(array))
    except (TypeError, ValueError) as error:
        raise TypeError(
            tr(
                "{function}() returned {kind}, which TensorFlow cannot convert to a tensor: {error}. {remedy}",
                function=function,
                kind=type(array).__name__,
                error=error,
                remedy=tr(WHAT_TO_RETURN),
            )
        ) from error


def check_spec(data: tf.data.Dataset, function: str, *, any_shape: bool) -> None:
    """Raise `TypeError` unless items are (inputs ..., target), or tensors in any shape."""
    spec = data.element_spec
    if any_shape:
        if all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec)):
            return
        raise TypeError(
            tr(
                "{function}() returned a tf.data.Dataset of {spec}. Each item must consist of plain tensors, in any "
                "structure: convert ragged and sparse ones with to_tensor() and tf.sparse.to_dense().",
                function=function,
                spec=spec,
            )
        )
    if not isinstance(spec, tuple) or len(spec) < 2 or not all(isinstance(part, tf.TensorSpec) for part in spec):
        raise TypeError(
            tr(
                "{function}() returned a tf.data.Dataset of {spec}. "
                "Without training_step(), each item must be a tuple of two or more tensors: the model's inputs first, "
                "the target last.",
                function=function,
                spec=spec,
            )
        )


def _cardinality(data: tf.data.Dataset, function: str) -> int:
    items = int(data.cardinality())
    if items == 0:
        raise empty_data(function, "tf.data.Dataset")
    if items == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            tr(
                "{function}() returned an endless tf.data.Dataset. Remove repeat(): the run has epochs.",
                function=function,
            )
        )
    if items < 0:
        raise ValueError(
            tr(
                "{function}() returned a tf.data.Dataset of unknown size. "
                "Set it: dataset.apply(tf.data.experimental.assert_cardinality(items)).",
                function=function,
            )
        )
    return items
