"""Explain TensorFlow's errors: which device, what happened, what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from ...language import tr

if TYPE_CHECKING:
    from ..context import Context

GIB = 2**30
FRAME = re.compile(r'File "(.+)", line (\d+), in (\w+)')
"""A frame in TensorFlow's description of an error while it traces a function."""
OURS = str(Path(__file__).resolve().parents[1])


def explain(error: BaseException, context: Context) -> str | None:
    """Return what happened and what to do, or None where TensorFlow's own message must do."""
    text = str(error)
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return _out_of_memory(text, context)
    if label := re.search(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)", text):
        return _label(*label.groups())
    if isinstance(error, tf.errors.InternalError) and "Unable to parse request" in text:
        return tr(
            "TensorFlow's connection between the chief and a worker failed (Unable to parse request), which happens "
            "now and then. Resume the run: it continues from its last checkpoint."
        )
    own = context.assignment
    if own.addresses and "Could not start gRPC server" in text:
        return tr(
            "TensorFlow cannot listen at {address}: another program has taken this port since it was chosen. Start or "
            "resume the run again.",
            address=own.addresses[own.rank],
        )
    if isinstance(error, tf.errors.UnavailableError):
        return tr("Another worker of the run can no longer be reached: {error}", error=text.splitlines()[0])
    return _while_tracing(text)


def _while_tracing(text: str) -> str | None:
    """Return where a function of the user's failed while TensorFlow traced it; None for any other error."""
    if not text.startswith("in user code:"):
        return None
    lines = [line.strip() for line in text.splitlines()]
    frames = [(at, found) for at, line in enumerate(lines) if (found := FRAME.match(line))]
    of_user = [found for _, found in frames if not found[1].startswith(OURS) and "site-packages" not in found[1]]
    said = [line for line in lines[frames[-1][0] + 2 :] if line] if frames else []  # a frame has a line of code
    if not of_user or not said:
        return None
    file, line, function = of_user[-1].groups()
    error = " ".join(said[: 2 if "Exception encountered when calling" in said[0] else 1])
    return tr(
        "{function}() in {file}, line {line}, failed: {error}. Correct it there.",
        function=function,
        file=file,
        line=line,
        error=error.rstrip("."),
    )


def _out_of_memory(text: str, context: Context) -> str:
    own = context.assignment.own
    gpu = re.search(r"device:GPU:(\d+)", text)
    number = int(gpu[1]) if gpu else None
    device = own[number] if number is not None and number < len(own) else ", ".join(own)
    wanted = re.search(r"allocating tensor with shape ?(\[[\d,]*\]) and type (\w+)", text)
    more = tr(" when allocating a tensor of shape {shape} ({kind})", shape=wanted[1], kind=wanted[2]) if wanted else ""
    return tr(
        "Device {device} ran out of memory{more}. {peak}"
        "Use a smaller batch, gradient accumulation, bfloat16 or more devices.",
        device=device,
        more=more,
        peak=_peak(number),
    )


def _peak(gpu: int | None) -> str:
    if gpu is None:
        return ""
    try:
        peak = tf.config.experimental.get_memory_info(f"GPU:{gpu}")["peak"]
    except (ValueError, RuntimeError):
        return ""
    return tr("This run's peak on it was {peak:.1f} GB. ", peak=peak / GIB)


def _label(label: str, outputs: str) -> str:
    return tr(
        "A label is {label}, but the model has {outputs} outputs: they are counted from 0. "
        "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes.",
        label=label,
        outputs=outputs,
    )
