"""Halve the batch of a spec, for a run that ran out of memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from core.config.validation import batch_divisor
from core.language import tr

if TYPE_CHECKING:
    from core.schema.spec import RunSpec

OPTION = re.compile(r"(?P<option>-b|-bs|--(?:\w+[-_])*batch(?:[-_]size)?)(?:=(?P<value>\d+))?", re.ASCII)
"""An option of a script that sets its batch size, with or without its value."""


def smaller_batch(spec: RunSpec) -> tuple[RunSpec, str] | None:
    """Return the spec with about half the batch, and the batch in words: `batch 48`, `--batch-size 48`.

    For a recipe the half is divided evenly over the devices. For a script it is the value of its option, which keeps
    its name. None if there is no smaller batch, or if none was given.
    """
    if spec.script is None:
        divisor = batch_divisor(spec)
        half = spec.training.batch_size // 2 // divisor * divisor
        if not half:
            return None
        return replace(spec, training=replace(spec.training, batch_size=half)), tr("batch {size}", size=half)
    arguments = list(spec.script.arguments)
    for number, argument in enumerate(arguments):
        option = OPTION.fullmatch(argument)
        if option is None:
            continue
        name, value = option["option"], option["value"]
        is_apart = value is None and number + 1 < len(arguments)
        text = arguments[number + 1] if is_apart else value or ""
        if not text.isdecimal() or int(text) < 2:
            continue
        half_text = str(int(text) // 2)
        arguments[number + is_apart] = half_text if is_apart else f"{name}={half_text}"
        return replace(spec, script=replace(spec.script, arguments=tuple(arguments))), f"{name} {half_text}"
    return None
