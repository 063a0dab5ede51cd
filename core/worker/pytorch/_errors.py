"""Explain PyTorch's errors: which device, what happened, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch

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
        return (
            "A check on the GPU failed (device-side assert). The usual cause is a label or an index out of range. "
            "Train a few steps on a CPU device to see which."
        )
    return None


def _out_of_memory(text: str, context: Context) -> str:
    found = re.search(r"GPU (\d+) has a total capacity", text)
    gpu = int(found[1]) if found and int(found[1]) < len(context.assignment.devices) else None
    own = ", ".join(context.assignment.own) if gpu is None else context.assignment.devices[gpu]
    wanted = re.search(r"[Tt]ried to allocate ([\d.]+ ?\w+)", text)
    more = f" when allocating {wanted[1]} more" if wanted else ""
    return (
        f"Device {own} ran out of memory{more}. {_peak(gpu)}Use a smaller batch, gradient accumulation, bfloat16 or "
        "fsdp (on several devices)."
    )


def _peak(gpu: int | None) -> str:
    if not torch.cuda.is_available():
        return ""
    peak, total = torch.cuda.max_memory_allocated(gpu), torch.cuda.get_device_properties(gpu).total_memory
    return f"This run's peak on it was {peak / GIB:.1f} of {total / GIB:.1f} GB. "


def _label(label: str) -> str:
    return (
        f"A label is {label}, but the model has no such output: outputs are counted from 0. "
        "Check the labels in train_data() and val_data(), or give model() as many outputs as there are classes."
    )
