"""Explain PyTorch's errors: which device, what happened, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch

from ...language import tr

if TYPE_CHECKING:
    from ..context import Context

GIB = 2**30


def explain(error: BaseException, context: Context) -> str | None:
    """Return what happened and what to do, or None where torch's own message must do."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text:
        return _out_of_memory(text, context)
    if out_of_bounds := re.search(r"Target (-?\d+) is out of bounds", text):
        return _label(out_of_bounds[1])
    if "device-side assert" in text:
        return tr(
            "A check on the GPU failed (device-side assert). The usual cause is a label or an index out of range. "
            "Train a few steps on a CPU device to see which."
        )
    return None


def _out_of_memory(text: str, context: Context) -> str:
    found = re.search(r"GPU (\d+) has a total capacity", text)
    gpu = int(found[1]) if found and int(found[1]) < len(context.assignment.devices) else None
    own = ", ".join(context.assignment.own) if gpu is None else context.assignment.devices[gpu]
    wanted = re.search(r"[Tt]ried to allocate ([\d.]+ ?\w+)", text)
    more = tr(" when allocating {size} more", size=wanted[1]) if wanted else ""
    return tr(
        "Device {device} ran out of memory{more}. {peak}Use a smaller batch, gradient accumulation, bfloat16 or "
        "fsdp (on several devices).",
        device=own,
        more=more,
        peak=_peak(gpu),
    )


def _peak(gpu: int | None) -> str:
    if not torch.cuda.is_available():
        return ""
    peak, total = torch.cuda.max_memory_allocated(gpu), torch.cuda.get_device_properties(gpu).total_memory
    return tr("This run's peak on it was {peak:.1f} of {total:.1f} GB. ", peak=peak / GIB, total=total / GIB)


def _label(label: str) -> str:
    return tr(
        "A label is {label}, but the model has no such output: outputs are counted from 0. "
        "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes.",
        label=label,
    )
