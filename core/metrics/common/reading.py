"""What a source has read at one place: one line of a log, one row of a table, one record of an event file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


IN_EPOCH = "in this epoch"
"""What is counted where it begins anew with each epoch, and nobody has said how many there will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Metrics, and where in the training they belong. None is "the program does not say"."""

    values: Mapping[str, float]  # by our names (`names.canonical`); NaN and inf are values
    step: int | None = None  # the program's own count of optimizer steps, where it says one
    epoch: float | None = None  # the epoch it belongs to, as the program counts, where it says one
    done: float | None = None  # progress: so many of `total` (a bar's n/total, "epoch 3/10" as (3, 10)), where printed
    total: float | None = None
    unit: str = ""  # what done and total count: "steps", "epochs", `IN_EPOCH`, or "" where it is not said
    time: float | None = None  # unix seconds, where the source knows when
