"""The plot of the utilisation: lines, or strips where there are many devices or hours."""

from __future__ import annotations

import math
from collections.abc import Mapping

from core.language import tr, tr_noop
from core.series.device_readings import IntervalMean
from core.series.run_series import RunSeries
from core.series.series import Series
from gui.base.formatting import DASH
from gui.base.text_size import scaled
from gui.plots.card import Span
from gui.plots.devices import READOUTS_UP_TO, DevicePlot, Slowdowns
from gui.plots.items.heat_strips import HeatStripsItem, StripFold, StripRow, column_width_s
from gui.plots.items.hover import HoverRow
from gui.plots.items.margin_labels import MarginLabel
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import named

LINES, STRIPS = "lines", "strips"
OTHER = {LINES: STRIPS, STRIPS: LINES}
LINES_UP_TO, LINES_UP_TO_S = 4, 3600.0
"""Devices, and seconds of a run, above which strips are drawn unless the user chose lines."""

TRAINED = tr_noop("mean while training")
ROW_PX, MAX_ROWS = 14, 12
"""Height that a strip with its name needs, and how many strips get it."""
AROUND_PX = 80
"""Height of the head and of the axis."""


class UtilisationPlot(DevicePlot):
    """Percent over time.

    Lines: the y axis always shows 0 to 100, so that an idle device looks idle. Strips: one row a device, with its mean
    while it trained at the right, or its newest reading while no run is shown.
    """

    unit = "%"

    def __init__(self, *, name: str, title: str) -> None:
        self.form = LINES
        """What is drawn now: `LINES` or `STRIPS`."""
        self.chosen: str | None = None
        """The form that the user chose; None: by the number of devices and the length of the run."""
        self.folds: dict[str, StripFold] = {}
        """By device id."""
        self.means: dict[str, IntervalMean] = {}
        """By device id; while the run trained."""
        self._beside: dict[str, float | None] = {}
        """What stands beside the strips, by device id."""
        self._slowdowns = Slowdowns()
        self.strips: HeatStripsItem | None = None
        """Created when it is first drawn."""
        super().__init__(name=name, title=title)
        self.form_button = compact_button("stripsButton", "", role="flat")
        self.form_button.clicked.connect(self._choose_other)
        self.form_button.hide()
        self.header.insertWidget(2, self.form_button)

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return percent by device id."""
        return run_series.utilisation

    def format_reading(self, value: float) -> str:
        """Return `82 %`."""
        return f"{value:.0f}\u2009%"

    def choose(self, form: object) -> None:
        """Always draw `LINES` or `STRIPS`; anything else: what suits the devices and the run."""
        self.chosen = form if isinstance(form, str) and form in OTHER else None
        self.invalidate()
        self.redraw()

    def usual_form(self, run_series: RunSeries) -> str:
        """Return the form that suits the devices and the length of the run."""
        is_long = self._ticked is None and run_series.duration_s > LINES_UP_TO_S  # the present has no length
        return STRIPS if is_long or len(self.shown(run_series)) > LINES_UP_TO else LINES

    def _choose_other(self) -> None:
        wanted = OTHER[self.form]
        usual = self.usual_form(self.run_series) if self.run_series else LINES
        self.choose(None if wanted == usual else wanted)

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        self._set_form(self.chosen or self.usual_form(run_series))
        if self.form == LINES:
            self.setMinimumHeight(scaled(self.min_height_px))
            if self.strips is not None:
                self.strips.clear()
            super()._draw(run_series, span, pixels)
            return
        if self.strips is None:
            self.strips = HeatStripsItem(self.canvas.getPlotItem())
            self.strips.recolour()
        self._match_lines({})
        self._multi_line.refresh()
        self._draw_strips(self.strips, run_series, span, pixels)

    def _draw_strips(self, strips: HeatStripsItem, run_series: RunSeries, span: Span, pixels: int) -> None:
        axis, shown = self.axis(run_series), self.shown(run_series)
        for gone in self.folds.keys() - shown.keys():
            del self.folds[gone]
            self.means.pop(gone, None)
        self._beside = self._values_beside(run_series, shown)
        begin, end = axis.locate(span[0]), axis.locate(span[1])
        width = column_width_s(end - begin, pixels)
        first = int(begin // width)
        count = int(end // width) + 1 - first
        slowed = {device: self._slowdowns.of(run_series, device) for device in shown}
        rows = [
            StripRow(
                percent=self.folds.setdefault(device, StripFold()).fold(series, width, first, count),
                marked=each.columns(width, first, count) if (each := slowed[device]) else None,
                faint=self.is_faint(device),
            )
            for device, series in shown.items()
        ]
        self.setMinimumHeight(scaled(max(self.min_height_px, AROUND_PX + ROW_PX * min(len(rows), MAX_ROWS))))
        strips.show_rows(rows, first * width - axis.origin, width)

    def _values_beside(self, run_series: RunSeries, shown: Mapping[str, Series]) -> dict[str, float | None]:
        """Return the mean of each device while it trained; of the present readings, the newest ones."""
        if self._ticked is not None:
            return {device: series.last for device, series in shown.items()}
        trained = run_series.trained
        return {
            device: self.means.setdefault(device, IntervalMean()).update(series, trained)
            for device, series in shown.items()
        }

    def _set_form(self, form: str) -> None:
        self.form_button.show()
        if form == self.form and self.form_button.text():
            return
        self.form = form
        is_lines = form == LINES
        self.form_button.setText(tr("Strips") if is_lines else tr("Lines"))
        tip = tr("Draw one strip for each device") if is_lines else tr("Draw one line for each device")
        named(self.form_button, spoken=tip, tip=tip)
        self.canvas.left.setStyle(showValues=is_lines)
        self.canvas.left.setGrid(255 if is_lines else False)

    def _show_empty(self) -> None:
        if self.strips is not None:
            self.strips.clear()
        self.form_button.hide()
        super()._show_empty()

    def _place_marks(self, run_series: RunSeries) -> None:
        if self.form == LINES:
            super()._place_marks(run_series)
            return
        values = self._beside
        self._describe(values)
        places = {device: len(values) - number - 0.5 for number, device in enumerate(values)}
        numbers = [
            MarginLabel(y=places[device], text=self._said(value), strong=not self.is_faint(device))
            for device, value in values.items()
        ]
        names = [self._label(device, y) for device, y in places.items()]
        self.margin.show_labels(names, numbers, spread=False)

    def _said(self, value: float | None) -> str:
        return self.format_reading(value) if value is not None and math.isfinite(value) else DASH

    def _readout(self, run_series: RunSeries) -> list[HoverRow]:
        if self._ticked is not None:
            return super()._readout(run_series) if self.form == LINES else [HoverRow(label=tr("now"))]
        if self.form == LINES and run_series.training_ended is None:
            return super()._readout(run_series)
        if self.form == LINES:  # the newest readings are those of idle devices
            shown = self.shown(run_series)
            if len(shown) > READOUTS_UP_TO:
                return []
            means = self._values_beside(run_series, shown)
            return [HoverRow(label=tr(TRAINED)), *(self._row(device, mean) for device, mean in means.items())]
        found = [mean for mean in self._beside.values() if mean is not None]
        return [HoverRow(label=tr(TRAINED), value=self._said(sum(found) / len(found) if found else None))]

    def _recolour_lines(self) -> None:
        super()._recolour_lines()
        if self.strips is not None:
            self.strips.recolour()

    def _y_span(self) -> Span:
        if self.form == STRIPS and self.strips is not None:
            return 0.0, float(max(len(self.strips.rows), 1))
        return -2.0, 104.0  # so that a line at 0 or at 100 is fully visible
