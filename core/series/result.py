"""The result of a run, from its series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.arrays import np
from core.history.run_loss import LOSS, RECENT, VALIDATION_LOSS, recent_mean, run_loss

if TYPE_CHECKING:
    from core.history.run_loss import RunLoss
    from core.series.run_series import RunSeries


def best_validation(run_series: RunSeries) -> tuple[int, float] | None:
    """Return the step and the value of the smallest validation loss; None without a finite one."""
    validations = run_series.metrics.get(VALIDATION_LOSS)
    if validations is None or (smallest := validations.min) is None:
        return None
    return int(validations.steps[np.argmax(validations.values == smallest)]), smallest


def loss_of(run_series: RunSeries) -> RunLoss | None:
    """Return the loss by which the run is compared with others: the same that lists of runs show."""
    losses = run_series.metrics.get(LOSS)
    newest = losses.values[-RECENT:].tolist() if losses is not None else []
    return run_loss(best_validation(run_series), recent_mean(newest), newest[-1] if newest else None)
