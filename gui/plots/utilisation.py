"""The plot of the utilisation: lines, or strips where there are many devices or hours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from core.language import tr, tr_noop
from core.series.device_readings import DeviceSeries, IntervalMean
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries
from gui.base.formatting import DASH
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.card import Span
from gui.plots.devices import READOUTS_UP_TO, DevicePlot
from gui.plots.items.hover import HoverRow
from gui.plots.items.lines import NOTHING, Flags, ViewDrawing
from gui.plots.items.margin_labels import MarginLabel
from gui.plots.run_plot import Plot
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import named

HELD_PERIODS = 3.0
"""A reading holds on for this many of the usual times between two readings; after that there is none."""
RECENT = 64
"""Readings from which the usual time between two is taken."""
STRIP_SHARE, STRIP_PX = 0.78, 22.0
"""Height of a strip: a share of the distance of the rows, and the most in pixels."""
MARK_PX, GAP_PX = 2.0, 1.0
"""Height of the mark under a strip, and of the gap above it: a mark stands out from the panel, not from every strip."""
LEVELS = 256
BGRA = (2, 1, 0, 3)
"""The order in which Qt keeps red, green, blue and opacity."""
FAINT_ALPHA = 90
"""Opacity out of 255 of a device that is not ticked, but for strong contrast."""


class StripFold:
    """Means of one device's readings in columns of equal width.

    Column n covers the unix times from n * width on, whatever is shown, so that a new reading changes the last
    columns only and the others are kept.
    """

    def __init__(self) -> None:
        self.folded = 0
        """Number of columns computed by the last `fold`."""
        self._series: DeviceSeries | None = None
        self._grid = (0.0, 0)
        self._means = NOTHING
        self._complete = 0
        """Columns at the beginning that no later reading can change."""

    def fold(self, series: DeviceSeries, width_s: float, first: int, count: int) -> Floats:
        """Return the means of `count` columns from number `first` on, shape (count,); NaN is a gap."""
        if series is not self._series or self._grid != (width_s, first):
            self._series, self._grid, self._complete = series, (width_s, first), 0
        kept = min(self._complete, count)
        borders = (first + np.arange(kept, count + 1, dtype=np.float64)) * width_s
        self.folded = count - kept
        self._means = np.concatenate([self._means[:kept], series.held_means(borders, held_s(series.times))])
        newest = float(series.times[-1]) if len(series) else 0.0
        self._complete = int(min(max(newest // width_s - first, 0), count))
        return self._means


def held_s(times: Floats) -> float:
    """Return how many seconds a reading holds on where readings have these times."""
    distances = np.sort(np.diff(times[-RECENT:]))  # numpy's median would import masked arrays first: 15 ms
    usual = float(distances[len(distances) // 2]) if len(distances) else 0.0
    return HELD_PERIODS * max(usual, 1.0)


def column_width_s(span_s: float, pixels: int) -> float:
    """Return the smallest power of two of seconds with which `span_s` has at most `pixels` columns."""
    return float(2.0 ** np.ceil(np.log2(max(span_s, 1e-3) / max(pixels, 1))))


@dataclass(slots=True, kw_only=True)
class StripRow:
    """One strip."""

    percent: Floats
    """The mean of each column, shape (columns,); NaN is a gap."""
    marked: Flags | None = None
    """In which columns the device was slowed down; None: in none."""
    faint: bool = False


class HeatStripsItem(ViewDrawing):
    """The strips of a plot from top to bottom; the y axis is the number of rows from the bottom."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__()
        self.rows: list[StripRow] = []
        self._image = QImage()
        self._left, self._column = 0.0, 1.0
        self._colours = np.zeros((LEVELS, 4), dtype=np.uint8)
        self._mark = QColor()
        self._gap = QColor()
        self._faint_alpha = FAINT_ALPHA
        plot.addItem(self, ignoreBounds=True)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        ends = np.array([QColor(colour).getRgb() for colour in (theme.idle, theme.busy)], dtype=np.float64)
        share = np.linspace(0, 1, LEVELS)[:, None]
        self._colours = np.round(ends[0] + share * (ends[1] - ends[0])).astype(np.uint8)[:, list(BGRA)]
        self._mark = QColor(theme.bad)
        self._gap = QColor(theme.panel)
        self._faint_alpha = 255 if theme.is_strong else FAINT_ALPHA

    def show_rows(self, rows: list[StripRow], left: float, column: float) -> None:
        """Show strips that begin at the position `left` and whose columns are `column` wide."""
        self.rows, self._left, self._column = rows, left, column
        opacity = [self._faint_alpha if row.faint else 255 for row in rows]
        self._image = _image([row.percent for row in rows], opacity, self._colours)
        self.update()

    def clear(self) -> None:
        """Show nothing."""
        if self.rows:
            self.show_rows([], 0.0, 1.0)

    def draw(self, painter: QPainter) -> None:
        """Draw each row of the image as a strip, and the marks over it."""
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        pixel = float(self.pixelHeight() or 1.0)
        height = min(STRIP_SHARE, STRIP_PX * pixel)
        columns = self._image.width()
        for number, row in enumerate(self.rows):
            bottom = len(self.rows) - number - 0.5 - height / 2
            target = QRectF(self._left, bottom, columns * self._column, height)
            painter.drawImage(target, self._image, QRectF(0, number, columns, 1))
            if row.marked is not None:
                for begin, end in _stretches(row.marked):
                    left, width = self._left + begin * self._column, (end - begin) * self._column
                    painter.fillRect(QRectF(left, bottom, width, (MARK_PX + GAP_PX) * pixel), self._gap)
                    painter.fillRect(QRectF(left, bottom, width, MARK_PX * pixel), self._mark)


def _stretches(marked: Flags) -> list[tuple[int, int]]:
    """Return the beginnings and the ends of the marked stretches."""
    edges = np.flatnonzero(np.diff(marked.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _image(rows: Sequence[Floats], opacity: Sequence[int], colours: NDArray[np.uint8]) -> QImage:
    """Return an image with one pixel a column and row; gaps are transparent. `opacity`: that of each row, up to 255."""
    if not rows:
        return QImage()
    percent = np.stack(rows)
    known = np.isfinite(percent)
    levels = np.clip(np.where(known, percent, 0.0) * ((LEVELS - 1) / 100), 0, LEVELS - 1).astype(np.intp)
    pixels = colours[levels]
    pixels[..., 3] = np.where(known, np.array(opacity)[:, None], 0)
    height, width = percent.shape
    return QImage(pixels.tobytes(), width, height, 4 * width, QImage.Format.Format_ARGB32).copy()


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

    quantity, unit = "utilisation", "%"

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
        self.strips: HeatStripsItem | None = None
        """Created when it is first drawn."""
        super().__init__(name=name, title=title)
        self.form_button = compact_button("stripsButton", "", role="flat")
        self.form_button.clicked.connect(self._choose_other)
        self.form_button.hide()
        self.header.insertWidget(2, self.form_button)

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

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw lines or strips."""
        self._set_form(self.chosen or self.usual_form(self._shown))
        if self.form == LINES:
            self.setMinimumHeight(scaled(self.min_height_px))
            if self.strips is not None:
                self.strips.clear()
            super().draw_lines(span, pixels)
            return
        if self.strips is None:
            self.strips = HeatStripsItem(self.canvas.getPlotItem())
            self.strips.recolour()
        self._match_lines({})
        self._multi_line.refresh()
        self._draw_strips(self.strips, self._shown, span, pixels)
        Plot.draw_lines(self, span, pixels)

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
        slowed = {device: self.slowdowns(run_series, device) for device in shown}
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

    def _values_beside(self, run_series: RunSeries, shown: Mapping[str, DeviceSeries]) -> dict[str, float | None]:
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

    def place_marks(self) -> None:
        """Name the devices beside their lines or strips."""
        if self.form == LINES:
            super().place_marks()
            return
        Plot.place_marks(self)
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

    def readout(self) -> list[HoverRow]:
        """Return the newest values, or the means while the run trained."""
        is_live = self._shown.training_ended is None
        mean_words = tr(TRAINED) if self._shown.metrics or is_live else tr("mean")  # it is not known when it trained
        is_newest = self._ticked is not None or is_live
        if self.form == LINES and is_newest:
            return super().readout()
        if self.form == LINES:  # the newest readings are those of idle devices
            shown = self.shown(self._shown)
            if len(shown) > READOUTS_UP_TO:
                return []
            means = self._values_beside(self._shown, shown)
            return [HoverRow(label=mean_words), *(self._row(device, mean) for device, mean in means.items())]
        if self._ticked is not None:
            return [HoverRow(label=tr("now"))]
        found = [mean for mean in self._beside.values() if mean is not None]
        return [HoverRow(label=mean_words, value=self._said(sum(found) / len(found) if found else None))]

    def _recolour_lines(self) -> None:
        super()._recolour_lines()
        if self.strips is not None:
            self.strips.recolour()

    def _y_span(self) -> Span:
        if self.form == STRIPS and self.strips is not None:
            return 0.0, float(max(len(self.strips.rows), 1))
        return -2.0, 104.0  # so that a line at 0 or at 100 is fully visible
