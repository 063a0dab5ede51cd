"""A reading: the metrics of one log line, one table row or one record of an event file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


IN_EPOCH = "in this epoch"
"""The unit of a count that restarts with each epoch, while the number of epochs is unknown."""

IN_VALIDATION = "in this validation"
"""The unit of a count within a validation pass. It is no progress of the training."""

OF_BAR = "of a bar beside it"
"""The unit of a reading whose step was taken from a bar that was drawn after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Metrics, and where in the training they belong. None: the program does not say."""

    values: Mapping[str, float]  # by our names (`names.canonical`); NaN and infinity are values
    step: int | None = None  # the program's own count of optimizer steps
    epoch: float | None = None  # as the program counts epochs
    done: float | None = None  # progress: `done` of `total`, from a bar's n/total or "epoch 3/10"
    total: float | None = None
    unit: str = ""  # of done and total: "steps", "epochs", `IN_EPOCH`, `IN_VALIDATION`, or "" if unknown
    time: float | None = None  # unix seconds
    of_test: bool = False  # its validation values are measured on a test set
