"""The data for `fit`: one stream of batches over all epochs, cut for the replicas of a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from ..tensorflow.task.data import read_ahead, whole_batches

if TYPE_CHECKING:
    from ..tensorflow.task.data import Batches, Feed


class Cut(NamedTuple):
    """The number of parts of a global batch."""

    replicas: int = 1
    passes: int = 1
    """Forward and backward passes of each replica, one after another: gradient accumulation."""

    @property
    def needed(self) -> bool:
        """Whether batches are cut at all."""
        return self.replicas * self.passes > 1


def training(
    batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int, any_shape: bool = False
) -> tf.data.Dataset:
    """Return all batches from step `skip` of an epoch on, epoch after epoch, each in its own order.

    Elements are (inputs, target), or, with `any_shape`, (tensors,), all of a batch in a row. Where batches are cut,
    weights follow: the elements are those of one replica after the other, and the weights of a global batch add up
    to 1.
    """
    if batches.dataset is None:
        feeds = _shuffled_arrays(batches, cut, epoch=epoch, epochs=epochs, skip=skip)
    else:
        feeds = _shuffled_dataset(batches, epoch=epoch, epochs=epochs, skip=skip)
        feeds = _dealt_out(feeds, cut) if cut.needed else feeds
    if any_shape:
        return _all_in_a_row(feeds, batches, weighted=cut.needed)
    return _gathered(feeds, batches, weighted=cut.needed)


def validation(batches: Batches, replicas: int) -> tuple[tf.data.Dataset, int]:
    """Return the data set, repeated without end, and the steps that see it once.

    Keras weights a replica's measurements by its number of items, so every replica must get some.
    """
    # With fewer items than replicas, each item is repeated once per replica: the means stay the same.
    times = 1 if batches.items >= replicas else replicas
    size = _leaving_none_idle(batches, replicas)
    items = batches.dataset
    if items is None:
        items = tf.data.Dataset.from_tensor_slices((tf.range(batches.items),))
    feeds = items.repeat(times).batch(size)
    if replicas > 1:
        feeds = _dealt_out(feeds, Cut(replicas)).map(lambda *feed: feed[:-1])
    return _gathered(feeds, batches, weighted=False), -(-batches.items * times // size)


def _leaving_none_idle(batches: Batches, replicas: int) -> int:
    """Return the run's batch size, or a little more, so that the last batch has an item for each replica, too."""
    size = batches.batch_size
    while size < batches.items and 0 < batches.items % size < replicas:
        size += replicas
    return size


def _gathered(feeds: tf.data.Dataset, batches: Batches, *, weighted: bool) -> tf.data.Dataset:
    """Return batches for `fit`. They repeat without end: TensorFlow then need not look for the end at each step."""

    def gather(*feed: tf.Tensor) -> tuple[object, ...]:
        weights = feed[-1:] if weighted else ()
        *inputs, target = batches.tensors(feed[:-1] if weighted else feed)
        return (inputs[0] if len(inputs) == 1 else tuple(inputs), target, *weights)

    return read_ahead(feeds.map(gather).repeat())


def _all_in_a_row(feeds: tf.data.Dataset, batches: Batches, *, weighted: bool) -> tf.data.Dataset:
    """Return batches of any shape for `fit`, without end: (tensors,) or (tensors, weights)."""

    def gather(*feed: tf.Tensor) -> tuple[object, ...]:
        if weighted:
            return tuple(batches.tensors(feed[:-1])), feed[-1]
        return (tuple(batches.tensors(feed)),)

    return read_ahead(feeds.map(gather).repeat())


def _shuffled_arrays(batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """Return the indices of each batch, or of each replica's slice of it, one after the other.

    The steps are counted, and the epoch's order is passed from step to step.
    """
    steps, size, replicas = batches.steps, batches.batch_size, cut.replicas

    def following(order: tf.Tensor, number: tf.Tensor) -> tuple[tf.Tensor, Feed]:
        step, replica = number // replicas, number % replicas
        begins = number % (steps * replicas) == 0
        order = tf.cond(begins, lambda: batches.order(step // steps), lambda: order)
        at = step % steps * size
        feed = (order[at : at + size],)
        return order, _slice(feed, replica, cut) if cut.needed else feed

    first, end = (epoch * steps + skip) * replicas, epochs * steps * replicas
    return tf.data.Dataset.range(first, end).scan(batches.order(epoch), following)


def _shuffled_dataset(batches: Batches, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """Return a `tf.data.Dataset` in global batches."""
    size = batches.batch_size

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        left_out = tf.where(number == epoch, tf.constant(skip * size, tf.int64), 0)
        items = whole_batches(batches.mixed(number).skip(left_out), size)
        return items.map(lambda *batch: tuple(tf.nest.flatten(batch)))

    return tf.data.Dataset.range(epoch, epochs).flat_map(one_epoch)


def _dealt_out(feeds: tf.data.Dataset, cut: Cut) -> tf.data.Dataset:
    """Return the replicas' slices of each global batch, in turn."""

    def slices(*feed: tf.Tensor) -> tf.data.Dataset:
        first, *others = (
            tf.data.Dataset.from_tensors(_slice(feed, tf.constant(number, tf.int64), cut))
            for number in range(cut.replicas)
        )
        for other in others:
            first = first.concatenate(other)
        return first

    return feeds.flat_map(slices)


def _slice(feed: Feed, replica: tf.Tensor, cut: Cut) -> Feed:
    """Return a replica's contiguous slice of a global batch, with the weights of its items.

    The slice has at least one item per pass: missing items are replaced by others with weight 0.
    """
    items = tf.shape(feed[0], out_type=tf.int64)[0]
    start, size = part(items, replica, cut.replicas)
    rows = tf.range(start, start + tf.maximum(size, cut.passes))
    weights = tf.where(rows < start + size, 1 / tf.cast(items, tf.float32), 0.0)
    return (*(tf.gather(each, tf.minimum(rows, items - 1)) for each in feed), weights)


def part(items: tf.Tensor, number: int | tf.Tensor, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return start and size of one of `parts` contiguous parts, which differ by one item at most."""
    least, more = items // parts, items % parts
    return number * least + tf.minimum(tf.cast(number, items.dtype), more), least + tf.cast(number < more, items.dtype)
