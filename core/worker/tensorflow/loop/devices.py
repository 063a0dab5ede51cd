"""Claim a worker's devices before TensorFlow makes its first tensor, and check them against the ticked devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ....language import tr, tr_plural

if TYPE_CHECKING:
    from ...context import Context

HOST = "/cpu:0"
"""The device that holds the data sets and coordinates."""


def claim(context: Context) -> list[str]:
    """Return this worker's devices by TensorFlow's names, such as `/gpu:1`, in the order ticked.

    Call it first: TensorFlow fixes its devices with the first tensor. Raises `RuntimeError` if the process sees more
    or fewer devices than the ticked ones.
    """
    own = len(context.assignment.own)
    _use_cores(len(context.assignment.cores))
    gpus = tf.config.list_physical_devices("GPU")
    context.record_seen(gpus=len(gpus), threads=tf.config.threading.get_intra_op_parallelism_threads())
    _check(len(gpus), context)
    if not gpus:
        _split_cpu(max(1, own))
        return [f"/cpu:{number}" for number in range(own)]
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)  # else TensorFlow takes all memory at once
    return [f"/gpu:{number}" for number in range(own)]  # the environment lists them in the order ticked


def mirrored_strategy(context: Context) -> tf.distribute.MirroredStrategy:
    """Claim this worker's devices and return a strategy that adds up gradients over them as the run says."""
    devices = claim(context)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=cross_device_ops(context.training.cross_device_ops))


def cross_device_ops(name: str) -> tf.distribute.CrossDeviceOps | None:
    """Return TensorFlow's object for one of our `CROSS_DEVICE_OPS`; None leaves the choice to TensorFlow."""
    kinds = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
        "one_device": tf.distribute.ReductionToOneDevice,
    }
    return None if name == "auto" else kinds[name]()


def _use_cores(cores: int) -> None:
    """Use as many threads as this process has cores. Leave the choice to TensorFlow where it is not pinned."""
    if cores:
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(cores)


def _split_cpu(number: int) -> None:
    """Divide the CPU into logical devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)


def _check(gpus: int, context: Context) -> None:
    assignment = context.assignment
    # Workers that meet over the network see only their own devices; one process for all sees all.
    ticked = assignment.own if assignment.addresses else assignment.devices
    if assignment.kind == "cpu":
        if gpus:
            raise RuntimeError(
                tr("This worker sees a GPU ({gpus}), but only CPU devices were chosen. Please report this.", gpus=gpus)
            )
    elif gpus != len(ticked):
        raise RuntimeError(
            tr(
                "This worker sees {seen}, but {chosen} ({devices}). {advice}",
                seen=tr_plural("{count} CUDA device", "{count} CUDA devices", gpus),
                chosen=tr_plural("{count} was chosen", "{count} were chosen", len(ticked)),
                devices=", ".join(ticked),
                advice=_cuda_advice(),
            )
        )


def _cuda_advice() -> str:
    if not tf.test.is_built_with_cuda():
        return tr("TensorFlow {version} is built without CUDA: install tensorflow[and-cuda].", version=tf.__version__)
    return tr(
        "Check that the driver fits this TensorFlow and that tensorflow[and-cuda] is installed: "
        "python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())' says why."
    )
