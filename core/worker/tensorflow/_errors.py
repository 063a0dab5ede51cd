"""Explain TensorFlow's errors: which device, what happened, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from ..context import Context

GIB = 2**30


def explain(error: BaseException, context: Context) -> str | None:
    """Return what happened and what to do, or None where TensorFlow's own message must do."""
    text = str(error)
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return _out_of_memory(text, context)
    if label := re.search(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)", text):
        return _label(*label.groups())
    if isinstance(error, tf.errors.InternalError) and "Unable to parse request" in text:
        return (
            "TensorFlow's connection between the chief and a worker failed (Unable to parse request), which happens "
            "now and then. Resume the run: it continues from its last checkpoint."
        )
    if isinstance(error, tf.errors.UnavailableError):
        return f"Another worker of the run can no longer be reached: {text.splitlines()[0]}"
    return None


def _out_of_memory(text: str, context: Context) -> str:
    own = context.assignment.own
    gpu = re.search(r"device:GPU:(\d+)", text)
    number = int(gpu[1]) if gpu else None
    device = own[number] if number is not None and number < len(own) else ", ".join(own)
    wanted = re.search(r"allocating tensor with shape ?(\[[\d,]*\]) and type (\w+)", text)
    more = f" when allocating a tensor of shape {wanted[1]} ({wanted[2]})" if wanted else ""
    return (
        f"Device {device} ran out of memory{more}. {_peak(number)}"
        "Use a smaller batch, gradient accumulation, bfloat16 or more devices."
    )


def _peak(gpu: int | None) -> str:
    if gpu is None:
        return ""
    try:
        peak = tf.config.experimental.get_memory_info(f"GPU:{gpu}")["peak"]
    except (ValueError, RuntimeError):
        return ""
    return f"This run's peak on it was {peak / GIB:.1f} GB. "


def _label(label: str, outputs: str) -> str:
    return (
        f"A label is {label}, but the model has {outputs} outputs: they are counted from 0. "
        "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes."
    )
