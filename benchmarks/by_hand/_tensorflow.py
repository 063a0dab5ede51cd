"""What the TensorFlow and Keras scripts share: the devices of a process, and an epoch's batches as indices."""

import os

import tensorflow as tf


def devices():
    """As many threads and as many CPU devices as this process has cores."""
    cores = len(os.sched_getaffinity(0))
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cores)
    return [f"/cpu:{number}" for number in range(cores)]


def shuffled(items, epoch, batch_size):
    """The indices of each batch."""
    order = tf.random.experimental.stateless_shuffle(tf.range(items), seed=[epoch, 0]).numpy()
    return [order[start : start + batch_size] for start in range(0, items, batch_size)]


def in_order(items, batch_size):
    """The same of a data set as it stands."""
    order = tf.range(items).numpy()
    return [order[start : start + batch_size] for start in range(0, items, batch_size)]
