"""The plot of a metric, and its controls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QListView

from core.language import tr, tr_noop
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries, best_validation
from core.series.series import Axis, Series
from gui.base.formatting import clock, number, significant
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.card import Span
from gui.plots.controls import MetricControls, compact_box
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.lines import BandItem, LineItem
from gui.plots.items.marks import Crosses, EdgeArrows, EndLabel, InterruptionMarks
from gui.plots.items.strips import StepBand
from gui.plots.ranks import VALIDATION, Family, at_step, combine, families, fitting_range, mean_of, own_name
from gui.plots.run_plot import OpenSpan, Plot
from gui.widgets.buttons import compact_button
from gui.widgets.fields import ChoiceBox

AXES = {"step": tr_noop("by step"), "training": tr_noop("by time"), "epoch": tr_noop("by epoch")}
"""The x axes that can be chosen, as `RunSeries.axes` names them; the first is the default."""
AXIS_TIP = tr_noop("Horizontal axis. By time: time of training from the first step on, without pauses")


class LossControls(MetricControls):
    """Where there is no room for the check boxes, they are with the slider that the smoothing button opens."""

    def __init__(self) -> None:
        super().__init__(compact_box(ChoiceBox(), "xAxisBox", tr("Horizontal axis"), tr(AXIS_TIP)), AXES)
        self.offer_families(["loss"])
        self.lay_out((self.axis_box, self.smoothing_button), [(self.outliers_box, self.log_box)], self.smoothing_button)

    def offer_families(self, families: list[str]) -> None:
        """Offer these metrics; without a choice, their box is hidden."""
        if self.has_other_metrics(families):
            self.offer_metrics(families, "loss")
            self.metric_box.setVisible(families != ["loss"])

    def show_unit(self, unit: str) -> None:
        """Name the axis of steps after what they count, `step` or `epoch`; epochs need no axis of their own then."""
        title = tr(AXES[unit])
        if title != self.axis_box.itemText(0):
            self.axis_box.setItemText(0, title)
            rows: QListView = self.axis_box.view()  # type: ignore[assignment]  # the default view of a QComboBox
            rows.setRowHidden(list(AXES).index("epoch"), unit == "epoch")


TRAIN, RANKS_MEAN, VALIDATED = tr_noop("train"), tr_noop("train, mean of ranks"), tr_noop("validation")
POSITION = {"step": tr_noop("step {step}"), "epoch": tr_noop("epoch {step}")}
VALUE_AT = {"step": tr_noop("{value} at step {step}"), "epoch": tr_noop("{value} at epoch {step}")}
NOW, LAST = tr_noop("now {value}"), tr_noop("last {value}")
"""Labels at the end of the line: while the run trains, and after its end."""
BECAME = {
    "step": tr_noop("{name} became {value} at step {step}"),
    "epoch": tr_noop("{name} became {value} at epoch {step}"),
}
BECAME_ON_ONE_RANK = {
    "step": tr_noop("{name} of one rank became {value} at step {step}"),
    "epoch": tr_noop("{name} of one rank became {value} at epoch {step}"),
}
END_ROOM_SHARE = 0.01
"""Room to the right of the last measurement, for the dot that marks it."""
MARK_REACH_PX = 8
"""Largest distance of the mouse from an arrow or a cross that it explains."""


class LossPlot(Plot):
    """One family of metrics, such as `loss` and `val_loss`, over steps, epochs or the time of training.

    The time of training begins with the first step and leaves out the interruptions of the run. Start-up and memory
    watch are in the plots of the devices alone.
    """

    min_height_px = 148  # the loss is what is looked at most
    y_by_hand = True

    def __init__(self, *, name: str, title: str) -> None:
        super().__init__(name=name, title=title)
        self.controls = LossControls()
        self.header.insertWidget(0, self.controls.metric_box)
        self.header.insertWidget(3, self.controls)
        self.controls.changed.connect(self._apply_controls)
        tip = tr("Opens the log with every number underlined; click one to plot it")
        self.teach_button = compact_button("teachButton", tr("Show me the number"), tip, role="primary")
        self.teach_button.hide()
        self._under_empty.insertWidget(2, self.teach_button, 0, Qt.AlignmentFlag.AlignHCenter)
        self.band = StepBand(self.canvas)
        self.column.addWidget(self.band)
        self._shown_of = self.controls.metric_name, self.controls.axis, self.controls.logarithmic
        plot = self.canvas.getPlotItem()
        self._spread, self._validation_spread = BandItem(plot, depth=-2), BandItem(plot, depth=-1)
        self._every = LineItem(plot)
        self._mean = LineItem(plot, depth=2)
        self._validation = LineItem(plot, depth=4, dashed=True, marked=True)
        self.arrows, self.crosses = EdgeArrows(self.canvas), Crosses(self.canvas)
        self.newest, self.interruptions = EndLabel(self.canvas), InterruptionMarks(self.canvas)
        self.recolour()
        self._apply_controls()

    def lines(self) -> Mapping[str, LineItem | BandItem]:
        """Return the lines by name: the metric, its mean, its validation values, and the spread over ranks."""
        family = self.controls.metric_name
        return {
            family: self._every,
            f"{family} (mean)": self._mean,
            VALIDATION + family: self._validation,
            f"{family} (spread)": self._spread,
            f"{VALIDATION}{family} (spread)": self._validation_spread,
        }

    def axis_name(self) -> str:
        """Return the quantity on the x axis: `step`, `epoch` or `training`."""
        return self.controls.axis

    def time_at(self, x: float) -> float | None:
        """Return the unix time at which the step at a position was measured; None beyond the first and the last."""
        run_series = self.run_series
        return None if run_series is None else self._family(run_series).time_at(self.axis(run_series), x)

    def place_time(self, time: float) -> float | None:
        """Return the position of the step measured at a unix time; None before the first and after the last."""
        run_series = self.run_series
        return None if run_series is None else self._family(run_series).place_time(self.axis(run_series), time)

    def show_times(self, times: OpenSpan) -> None:
        """Show the steps measured in this range of unix times; keep what is shown if there are none."""
        if self.run_series is not None and self._family(self.run_series).measured_in(*times):
            super().show_times(times)

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the nearest step with its epoch, time and value, the nearest validation, and what marks mean there."""
        if self.run_series is None:
            return None
        axis, family = self.axis(self.run_series), self._family(self.run_series)
        lines = [(ranks, *self._nearest(ranks, axis, x)) for ranks in (family.train, family.validation) if ranks]
        if not lines:
            return None
        _, step, time = lines[0]
        place = axis.place(np.array([step if axis.column == "step" else time]))
        rows = [row for ranks, near, _ in lines for row in self._rows(family, ranks, near)]
        position = HoverRow(label=self._position_text(family.unit, step, time))
        marks = [*self._outside_rows(x), *self._break_rows(family, axis, x)]
        return HoverReading(x=float(place[0]), rows=(position, *rows, *marks))

    def _nearest(self, ranks: list[Series], axis: Axis, x: float) -> tuple[int, float]:
        """Return the nearest step and the time at which a rank reached it, in unix seconds."""
        points = [point for series in ranks if (point := series.nearest(axis, x)) is not None]
        wanted = axis.locate(x)
        nearest = min(points, key=lambda point: abs((point.step if axis.column == "step" else point.time) - wanted))
        return nearest.step, nearest.time

    def _rows(self, family: Family, ranks: list[Series], step: int) -> list[HoverRow]:
        """Return the value of one step, and the mean there."""
        values = [point.value for point in at_step(ranks, step)]
        value = value_text(mean_of(values), 5)
        numbers = [each for each in values if np.isfinite(each)]
        if len(numbers) > 1:
            value += f" {tr('({lowest:.4g} to {highest:.4g})', lowest=min(numbers), highest=max(numbers))}"
        if ranks is not family.train:
            at = tr(VALUE_AT[family.unit], value=value, step=number(step, 1))
            return [HoverRow(label=tr(VALIDATED), value=at, colour=current_theme().validation)]
        label = tr(TRAIN) if len(ranks) == 1 else tr(RANKS_MEAN)
        rows = [HoverRow(label=label, value=value, colour=current_theme().train)]
        weight = self.controls.smoothing
        means = [mean for series in ranks if weight and (mean := series.mean_at(step, weight)) is not None]
        if np.isfinite(mean_of(means)):
            rows.append(HoverRow(label=tr("train mean"), value=f"{mean_of(means):.5g}", colour=current_theme().train))
        return rows

    def _outside_rows(self, x: float) -> list[HoverRow]:
        """Return the value that lies farthest outside the plot at the arrow near this position, if there is one."""
        reach, (bottom, top) = MARK_REACH_PX * self.canvas.pixel_size[0], self.canvas.y_range
        heights = np.concatenate([np.empty(0), *(y for _, y in self._heights(x - reach, x + reach))])
        outside = heights[(heights > top) | (heights < bottom)]
        if not len(outside):
            return []
        farthest = outside[np.argmax(np.maximum(outside - top, bottom - outside))]
        value = 10**farthest if self.controls.logarithmic else farthest
        where = tr("above the plot") if farthest > top else tr("below the plot")
        return [HoverRow(label=where, value=f"{value:.5g}", colour=current_theme().muted)]

    def _break_rows(self, family: Family, axis: Axis, x: float) -> list[HoverRow]:
        """Return what became of the metric at the cross near this position, if there is one."""
        reach = MARK_REACH_PX * self.canvas.pixel_size[0]
        for ranks, name in ((family.train, family.name), (family.validation, VALIDATION + family.name)):
            for series in ranks:
                for index in series.breaks(axis, x - reach, x + reach)[:1]:
                    form = (BECAME if len(ranks) == 1 else BECAME_ON_ONE_RANK)[family.unit]
                    value, step = value_text(series.values[index], 1), number(float(series.steps[index]), 1)
                    text = tr(form, name=name.replace("_", " "), value=value, step=step)
                    return [HoverRow(label=text, colour=current_theme().bad)]
        return []

    def _position_text(self, unit: str, step: int, time: float) -> str:
        assert self.run_series is not None
        axes = self.run_series.axes
        seconds = clock(float(axes["training"].place(np.array([time]))[0]))
        epoch = [tr("epoch {epoch:.2f}", epoch=step / axes["epoch"].unit)] if "epoch" in axes else []
        return " \u00b7 ".join([tr(POSITION[unit], step=number(step, 1)), *epoch, seconds])

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the metric and its validation values, of each rank."""
        metrics, family = run_series.drawn, self.controls.metric_name
        shown = {family, VALIDATION + family}
        return {name: series for name, series in metrics.items() if own_name(name, metrics) in shown}

    def _family(self, run_series: RunSeries) -> Family:
        return Family.of(run_series, self.controls.metric_name)

    def prepare(self) -> None:
        """Offer the metrics and the axes of the run."""
        if self.run_series is not None:
            names = families(self.run_series)
            self.controls.offer_families(names)
            self.title.setVisible(names == ["loss"])
            self.controls.offer_axes({"step", "training", *self.run_series.axes})
            self.controls.show_unit(self._family(self.run_series).unit)
        self.band.setVisible(shown := self.is_filled() and len(self._shown.step_times.table) > 1)
        self.setMinimumHeight(scaled(self.min_height_px) + shown * self.band.sizeHint().height())

    def is_filled(self) -> bool:
        """Return whether the run has a finite value of the metric on this axis."""
        run_series = self.run_series
        if run_series is None or self.axis_name() not in run_series.axes:
            return False
        return any(series.min is not None for series in self._family(run_series).every)

    def _empty_text(self) -> str:
        measured = self.run_series is not None and self._family(self.run_series).every
        if self.run_series is None or not measured or self.axis_name() not in self.run_series.axes:
            return super()._empty_text()
        name = self.controls.metric_name.replace("_", " ")
        if self.has_trained(self.run_series):
            return tr("All {name} values of this run are NaN or infinite", name=name)
        return tr("All {name} values so far are NaN or infinite", name=name)

    def whole_span(self) -> Span:
        """Return the range from the beginning of training to the last measurement, with room for its label."""
        lo, hi = self._family(self._shown).span(self.axis(self._shown))
        return lo, hi + END_ROOM_SHARE * (hi - lo)

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw the metric, its mean and its validation values, of several ranks with the spread."""
        smoothing, family = self.controls.smoothing, self._family(self._shown)
        train, validation = family.train, family.validation
        if len(train) > 1:
            self._every.clear()
            self._draw_ranks(train, self._mean, self._spread, span, pixels)
        else:
            self._spread.clear()
            self._draw_one(train, self._every, span, pixels)
            self._draw_one(train if smoothing else [], self._mean, span, pixels, smoothing)
        if len(validation) > 1:
            self._draw_ranks(validation, self._validation, self._validation_spread, span, pixels)
        else:
            self._validation_spread.clear()
            self._draw_one(validation, self._validation, span, pixels)
        super().draw_lines(span, pixels)
        if not self.band.isHidden():
            self.band.show_times(self._shown.step_times, self.axis(self._shown))

    def _draw_one(self, ranks: list[Series], line: LineItem, span: Span, pixels: int, weight: float = 0.0) -> None:
        if not ranks:
            line.clear()
            return
        axis, log, series = self.axis(self._shown), self.controls.logarithmic, ranks[0]
        x, y = series.smooth(axis, *span, pixels, weight) if weight else series.view(axis, *span, pixels, positive=log)
        line.show(x, np.where(y > 0, y, np.nan) if log else y, logarithmic=log)

    def _draw_ranks(self, ranks: list[Series], line: LineItem, band: BandItem, span: Span, pixels: int) -> None:
        log = self.controls.logarithmic
        weight = self.controls.smoothing if line is self._mean else 0.0
        found = combine(ranks, self.axis(self._shown), span, pixels, weight, positive=log)
        line.show(found.x, found.mean, logarithmic=log)
        band.show(found.x, found.low, found.high, logarithmic=log)

    def _y_span(self) -> Span | None:
        heights = [y for _, y in self._heights(*self.canvas.x_range)]
        return fitting_range(heights, ignore_outliers=self.controls.ignores_outliers)

    def _heights(self, lo: float, hi: float) -> list[tuple[Floats, Floats]]:
        """Return the positions and heights of all lines over [lo, hi], shape (n,) each."""
        every = [(x[(x >= lo) & (x <= hi)], y[(x >= lo) & (x <= hi)]) for x, y in self.curves().values()]
        return [(x, np.log10(y)) for x, y in every] if self.controls.logarithmic else every

    def place_marks(self) -> None:
        """Mark what lies outside, where values are no numbers, and the end of the line."""
        super().place_marks()
        run_series = self._shown
        family, axis, visible = self._family(run_series), self.axis(run_series), self.canvas.x_range
        # A user who has moved the y axis knows that values lie outside it.
        self.arrows.show([] if self.y_held else self._heights(*visible))
        x, before = family.breaks(axis, *visible)
        self.crosses.show(x, self.controls.heights_of(before))
        self._place_newest(family, axis, over=self.has_trained(run_series))
        interruptions = run_series.interruptions if axis.column == "time" else ()
        self.interruptions.show(interruptions, run_series.changes, axis)

    def _place_newest(self, family: Family, axis: Axis, *, over: bool) -> None:
        """Label the end of the line: the mean if it is drawn, else the last value."""
        newest, _ = family.newest(self.controls.smoothing)
        if not np.isfinite(newest):
            self.newest.hide()
            return
        end = max(float(series.steps[-1] if axis.column == "step" else series.times[-1]) for series in family.train)
        text = tr(LAST if over else NOW, value=significant(newest))
        x, height = axis.place(np.array([end])), self.controls.heights_of(np.array([newest]))
        self.newest.show(float(x[0]), float(height[0]), text)

    def readout(self) -> list[HoverRow]:
        """Return the newest values, for the heading."""
        family, rows = self._family(self._shown), []
        if family.train:
            value, is_mean = family.newest(self.controls.smoothing)
            label = tr("train mean") if is_mean else tr(TRAIN)
            rows.append(HoverRow(label=label, value=value_text(value, 4), colour=current_theme().train))
        colour = current_theme().validation
        if self.controls.metric_name == "loss" and (best := best_validation(self._shown)) is not None:
            rows.append(HoverRow(label=tr("best validation"), value=value_text(best[1], 4), colour=colour))
        elif family.validation:
            value = mean_of(series.values[-1] for series in family.validation)
            rows.append(HoverRow(label=tr(VALIDATED), value=value_text(value, 4), colour=colour))
        return rows

    def _recolour_lines(self) -> None:
        theme = current_theme()
        smoothed = self.controls.smoothing > 0
        self._every.paint_in(theme.train_faint if smoothed else theme.train)
        self._mean.paint_in(theme.train, width=2.5)
        self._validation.paint_in(theme.validation, width=1.5)
        self._spread.paint_in(theme.train, outlined=theme.is_strong)
        self._validation_spread.paint_in(theme.validation, outlined=theme.is_strong)
        self.arrows.paint_in(theme.muted)
        self.crosses.paint_in(theme.bad)
        self.newest.paint_in(theme.train, theme.panel)
        self.interruptions.recolour()

    def _apply_controls(self) -> None:
        """Apply the controls. Another metric or another axis is shown whole."""
        self.canvas.bottom.show_kind(self.axis_name())
        self.canvas.left.show_logarithmic(self.controls.logarithmic)
        self._recolour_lines()
        shown_of = self.controls.metric_name, self.controls.axis, self.controls.logarithmic
        if shown_of != self._shown_of:
            self._shown_of = shown_of
            self.set_follow(True)
        self.invalidate()


def value_text(value: float, digits: int) -> str:
    """Return a value with so many significant digits, a large one whole: `0.4304`, `12 340`."""
    if np.isfinite(value):
        return number(value, 1) if 10 ** (digits - 1) <= abs(value) < 1e9 else f"{value:.{digits}g}"
    return "NaN" if np.isnan(value) else tr("infinite")
