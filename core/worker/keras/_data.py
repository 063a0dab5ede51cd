"""The data as `fit` reads them: one stream of batches over all epochs, cut for the replicas of a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from ..tensorflow._data import read_ahead

if TYPE_CHECKING:
    from ..tensorflow._data import Batches, Feed


class Cut(NamedTuple):
    """Into how many parts a global batch goes."""

    replicas: int = 1
    passes: int = 1
    """Forward and backward passes of each replica, one after another: gradient accumulation."""

    @property
    def needed(self) -> bool:
        """Whether it is cut at all."""
        return self.replicas * self.passes > 1


def training(batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """All batches from a step of an epoch on, epoch after epoch, each in its own order.

    Elements are (inputs, target), or where batches are cut, a replica's (inputs, target, weights): the
    replicas' in turn, their weights adding up to 1 over a global batch.
    """
    if batches.dataset is None:
        feeds = _shuffled_arrays(batches, cut, epoch=epoch, epochs=epochs, skip=skip)
    else:
        feeds = _shuffled_dataset(batches, epoch=epoch, epochs=epochs, skip=skip)
        feeds = _dealt_out(feeds, cut) if cut.needed else feeds
    return _gathered(feeds, batches, weighted=cut.needed)


def validation(batches: Batches, replicas: int) -> tuple[tf.data.Dataset, int]:
    """The data set as it stands, over and over, and the steps that it takes to see it once.

    Keras weights what a replica measures by the items it was shown, so every replica has to be shown some.
    """
    # Of fewer items than replicas each is shown as often as there are replicas: the means stay what they are.
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
    """The run's batch size, or a little more, so that also the last batch has an item for each replica."""
    size = batches.batch_size
    while size < batches.items and 0 < batches.items % size < replicas:
        size += replicas
    return size


def _gathered(feeds: tf.data.Dataset, batches: Batches, *, weighted: bool) -> tf.data.Dataset:
    """Batches of what `fit` takes; beginning anew at their end, which spares TensorFlow to look for it at each step."""

    def gather(*feed: tf.Tensor) -> tuple[object, ...]:
        weights = feed[-1:] if weighted else ()
        *inputs, target = batches.tensors(feed[:-1] if weighted else feed)
        return (inputs[0] if len(inputs) == 1 else tuple(inputs), target, *weights)

    return read_ahead(feeds.map(gather).repeat())


def _shuffled_arrays(batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """The indices of a batch, or of a replica's slice of it, one after another.

    Counted through, with the epoch's order handed on from step to step.
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
    """The items of a `tf.data.Dataset` in global batches."""
    size = batches.batch_size

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        left_out = tf.where(number == epoch, tf.constant(skip * size, tf.int64), 0)
        return batches.mixed(number).skip(left_out).batch(size)

    return tf.data.Dataset.range(epoch, epochs).flat_map(one_epoch)


def _dealt_out(feeds: tf.data.Dataset, cut: Cut) -> tf.data.Dataset:
    """The replicas' slices of each global batch, in turn."""

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
    """A replica's contiguous slice of a global batch, with the weights of its items.

    It has an item for each pass at least: where there are not enough, others stand in with a weight of 0.
    """
    items = tf.shape(feed[0], out_type=tf.int64)[0]
    start, size = part(items, replica, cut.replicas)
    rows = tf.range(start, start + tf.maximum(size, cut.passes))
    weights = tf.where(rows < start + size, 1 / tf.cast(items, tf.float32), 0.0)
    return (*(tf.gather(each, tf.minimum(rows, items - 1)) for each in feed), weights)


def part(items: tf.Tensor, number: int | tf.Tensor, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Start and size of the `number`-th of so many contiguous parts, which differ by one item at most."""
    least, more = items // parts, items % parts
    return number * least + tf.minimum(tf.cast(number, items.dtype), more), least + tf.cast(number < more, items.dtype)
