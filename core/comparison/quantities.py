"""The registry of the numbers that a comparison shows of each run: a row here is a column of every table.

The table in the window, in a terminal, as Markdown, CSV and JSON has these columns; a row says how each is called, is
written and is compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr_noop
from core.text import short
from core.units import BYTES_PER_GB, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from core.comparison.results import RunResult
    from core.comparison.table import Statistic

ROUNDING = 1e-9
"""A spread that is a smaller part of the mean than this comes from rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of a run."""

    name: str
    """The field of `RunResult`; the key in JSON and the column in CSV."""
    heading: str
    lower_is_better: bool | None = None
    """None: as for values of the metric."""
    has_difference: bool = True
    """Whether its difference from the baseline means anything."""
    is_compared: bool = False
    """Whether the difference stands in the cell of a terminal's table, which has less room than the window."""
    is_per_device: bool = False
    """Whether a run has one for each device. That of the fullest device then stands for the run."""
    write: Callable[[float], str] = short
    """Return a finite value for people, in the unit of the column."""

    def of(self, result: RunResult) -> float | None:
        """Return the number of a run; None if it has none."""
        value = getattr(result, self.name)
        return max(value.values(), default=None) if self.is_per_device else value

    def spread_text(self, statistic: Statistic) -> str:
        """Return ` ± ` and the standard deviation, of which two digits mean something; nothing for a single run."""
        if statistic.deviation is None or not math.isfinite(statistic.deviation):
            return ""
        is_rounding = statistic.deviation < ROUNDING * abs(statistic.mean)
        value = 0.0 if is_rounding else statistic.deviation
        return f" ± {self.text(float(f'{value:.2g}') if self.write in {short, _count} else value)}"

    def text(self, value: float) -> str:
        """Return a value for people, in the unit of the column."""
        return self.write(value) if math.isfinite(value) else str(value)


def _gigabytes(value: float) -> str:
    return f"{value / BYTES_PER_GB:.2f}"


def _count(value: float) -> str:
    return f"{value:.6g}"


QUANTITIES = (
    Quantity(name="last", heading=tr_noop("Last")),
    Quantity(name="best", heading=tr_noop("Best"), is_compared=True),
    Quantity(name="best_step", heading=tr_noop("Best at"), has_difference=False, write=_count),
    Quantity(name="time_to_target_s", heading=tr_noop("To target"), lower_is_better=True, is_compared=True,
             write=duration),
    Quantity(name="samples_per_s", heading=tr_noop("Samples/s"), lower_is_better=False, is_compared=True),
    Quantity(name="steps_per_s", heading=tr_noop("Steps/s"), lower_is_better=False, is_compared=True),
    Quantity(name="training_s", heading=tr_noop("Trained"), lower_is_better=True, write=duration),
    Quantity(name="peak_memory_bytes", heading=tr_noop("Peak GB"), lower_is_better=True, is_compared=True,
             is_per_device=True, write=_gigabytes),
)  # fmt: skip
"""In the order of the columns."""


def columns(runs: Collection[Collection[str]]) -> list[Quantity]:
    """Return the quantities that deserve a column: those that a run has. `runs`: the names of those of each run.

    Steps per second say nothing beside samples per second, so they are left out where every run has both.
    """
    shown = [quantity for quantity in QUANTITIES if any(quantity.name in names for names in runs)]
    if all("samples_per_s" in names for names in runs):
        shown = [quantity for quantity in shown if quantity.name != "steps_per_s"]
    return shown
