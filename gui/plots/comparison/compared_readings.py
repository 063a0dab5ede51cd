"""The plots of the readings of the devices of several runs, over the axis of their metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.comparison.curves import ReadingCurve
from gui.plots.card import Span
from gui.viewmodels.comparison.compared import ComparedRun

from .compared_plot import ComparedPlot


class ComparedReadingsPlot(ComparedPlot):
    """The readings of the devices of several runs, one line for each run."""

    min_height_px = 110

    def __init__(
        self, *, name: str, title: str, unit: str, readings: Callable[[ComparedRun], ReadingCurve],
        top: float | None = None,
    ) -> None:  # fmt: skip
        """`readings`: returns the curve of a run; `top`: the upper end of the y axis, None for the highest reading."""
        self._readings, self._unit, self._top = readings, unit, top
        super().__init__(name=name, title=title)
        self._unit_label.setText(unit)
        self._unit_label.show()
        self.recolour()

    def is_filled(self) -> bool:
        """Return whether a run has readings."""
        return any(len(self._readings(run)) for entry in self.entries for run in entry.runs)

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw a line for each run."""
        count = sum(len(entry.runs) for entry in self.entries)
        columns = self.columns(pixels, count)
        borders = np.linspace(*span, columns + 1)
        self.clear_thin_lines()
        for entry in self.entries:
            for place, run in enumerate(entry.runs):
                axis = self.axis(run)
                if axis is None or not len(self._readings(run)):
                    continue
                values = self._readings(run).means(run.guide.times_of(axis, borders))
                name = entry.label if not place else f"{entry.label} run {place + 1}"
                self.thin_line(name, entry.colour, is_faint=place > 0).show(borders[1:], values)
                if not place:
                    self.drawn[entry.label] = borders[1:], values
        self.show_thin_lines()

    def value_text(self, value: float) -> str:
        """Return a reading with its unit."""
        return f"{value:.0f}\u2009{self._unit}" if self._top else f"{value:.1f} {self._unit}"

    def _y_span(self) -> Span:
        top = self._top or max((line.highest or 0.0 for line in self.many.lines.values()), default=0.0) or 1.0
        return -0.02 * top, 1.04 * top

    def _recolour_lines(self) -> None:
        """Do nothing: the lines get their colours when they are drawn."""
