"""Explain errors of workers, known by the messages of the frameworks: on which device, what happened, what to do."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from ..language import join_sentences, tr

if TYPE_CHECKING:
    from .context import Context

UNREACHABLE = frozenset({errno.ENETUNREACH, errno.ECONNREFUSED})
FRAME = re.compile(r'File "(.+)", line (\d+), in (\w+)')
"""A frame in TensorFlow's description of an error while it traces a function."""
OURS = str(Path(__file__).resolve().parent)


def explain(error: BaseException, context: Context) -> str | None:
    """Return what an error means and what to do, or None where its own message must do."""
    if context.has_no_network and _is_of_network(error):
        return tr(
            "The recipe contacts another computer ({error}), but workers of this strategy have no network while they "
            "train. Let train_data(), val_data() or model() keep what it downloads in a file, or choose strategy "
            "mirrored.",
            error=error,
        )
    of_framework = _of_pytorch if context.spec.framework == "pytorch" else _of_tensorflow
    return of_framework(error, str(error), context)


def _is_of_network(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, socket.gaierror) or (isinstance(seen, OSError) and seen.errno in UNREACHABLE):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _is(error: BaseException, name: str) -> bool:
    """Return whether an error is of a framework's class of this name, or of one derived from it."""
    return any(each.__name__ == name for each in type(error).__mro__)


def _of_pytorch(error: BaseException, text: str, context: Context) -> str | None:
    if _is(error, "OutOfMemoryError") or "can't allocate memory" in text:
        return _pytorch_out_of_memory(text, context)
    if out_of_bounds := re.search(r"Target (-?\d+) is out of bounds", text):
        return tr(
            "A label is {label}, but the model has no such output: outputs are counted from 0. "
            "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes.",
            label=out_of_bounds[1],
        )
    if "device-side assert" in text:
        return tr(
            "A check on the GPU failed (device-side assert). The usual cause is a label or an index out of range. "
            "Train a few steps on a CPU device to see which."
        )
    return None


def _pytorch_out_of_memory(text: str, context: Context) -> str:
    found = re.search(r"GPU (\d+) has a total capacity", text)
    gpu = int(found[1]) if found and int(found[1]) < len(context.assignment.devices) else None
    own = ", ".join(context.assignment.own) if gpu is None else context.assignment.devices[gpu]
    wanted = re.search(r"[Tt]ried to allocate ([\d.]+ ?\w+)", text)
    more = tr(" when allocating {size} more", size=wanted[1]) if wanted else ""
    return tr(
        "Device {device} ran out of memory{more}. Use a smaller batch, gradient accumulation, bfloat16 or fsdp (on "
        "several devices).",
        device=own,
        more=more,
    )


def _of_tensorflow(error: BaseException, text: str, context: Context) -> str | None:
    own = context.assignment
    if _is(error, "ResourceExhaustedError") or isinstance(error, MemoryError):
        return _tensorflow_out_of_memory(text, context)
    if label := re.search(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)", text):
        return tr(
            "A label is {label}, but the model has {outputs} outputs: they are counted from 0. "
            "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes.",
            label=label[1],
            outputs=label[2],
        )
    if _is(error, "InternalError") and "Unable to parse request" in text:
        return tr(
            "TensorFlow's connection between the chief and a worker failed (Unable to parse request), which happens "
            "now and then. Resume the run: it continues from its last checkpoint."
        )
    if own.addresses and "Could not start gRPC server" in text:
        return tr(
            "TensorFlow cannot listen at {address}: another program has taken this port since it was chosen. Start or "
            "resume the run again.",
            address=own.addresses[own.rank],
        )
    if _is(error, "UnavailableError"):
        return tr("Another worker of the run can no longer be reached: {error}", error=text.splitlines()[0])
    return _not_finite(text) or _while_tracing(text)


def _not_finite(text: str) -> str | None:
    """Return which operation made a number that is not finite, where TensorFlow was asked to look (`finds_nan`)."""
    made = re.search(r"node (\S+)/CheckNumerics", text)
    if made is None:
        return None
    name = made[1]
    value = "NaN" if re.search("had .*NaN", text) else tr("infinity")
    of_user = [each for each in FRAME.findall(text) if not each[0].startswith(OURS) and "site-packages" not in each[0]]
    said = tr("The operation {name} makes {value}.", name=name, value=value)
    if of_user:
        file, line, function = of_user[-1]
        said = tr("The operation {name} makes {value}: {function}() in {file}, line {line}.",
                  name=name, value=value, function=function, file=file, line=line)
    purpose = tr("If that is on purpose, as in a mask, use a large finite number there, and search again.")
    return said if value == "NaN" else join_sentences([said, purpose])


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


def _tensorflow_out_of_memory(text: str, context: Context) -> str:
    own = context.assignment.own
    gpu = re.search(r"device:GPU:(\d+)", text)
    number = int(gpu[1]) if gpu else None
    device = own[number] if number is not None and number < len(own) else ", ".join(own)
    wanted = re.search(r"allocating tensor with shape ?(\[[\d,]*\]) and type (\w+)", text)
    more = tr(" when allocating a tensor of shape {shape} ({kind})", shape=wanted[1], kind=wanted[2]) if wanted else ""
    return tr(
        "Device {device} ran out of memory{more}. Use a smaller batch, gradient accumulation, bfloat16 or more "
        "devices.",
        device=device,
        more=more,
    )
