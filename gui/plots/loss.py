"""The plot of the loss or another metric: every step faint, the moving mean bold, validation dashed.

If several ranks measure the metric, the line is their mean and a faint band reaches from minimum to maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gui.plots.items.band import BandItem
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.line import LineItem
from gui.style.formatting import clock, number

from .base import Plot
from .loss_controls import LossControls
from .ranks import at_step, combine, mean_of, of_ranks, own_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.min_max_tree import Floats
    from core.series.run_series import RunSeries
    from core.series.series import Axis, Series
    from gui.style.theme import Theme

    from .base import Span

VALIDATION = "val_"


class LossPlot(Plot):
    """One family of metrics, such as `loss` and `val_loss`, over time, steps or epochs."""

    y_by_hand = True

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__(name=name, title=title, theme=theme)
        self.controls = LossControls()
        self.header.insertWidget(0, self.controls.metric_box)
        self.header.insertWidget(3, self.controls)
        self.controls.changed.connect(self._apply_controls)
        self._axis_name = self.controls.axis
        plot = self.canvas.getPlotItem()
        self._spread, self._validation_spread = BandItem(plot, depth=-2), BandItem(plot, depth=-1)
        self._every = LineItem(plot)
        self._mean = LineItem(plot, depth=2)
        self._validation = LineItem(plot, depth=4, dashed=True, marked=True)
        self.set_theme(theme)
        self._apply_controls()

    def lines(self) -> Mapping[str, LineItem | BandItem]:
        """Return the lines by name: the metric, its mean, its validation values, and the spread over ranks."""
        family = self.controls.family
        return {
            family: self._every,
            f"{family} (mean)": self._mean,
            VALIDATION + family: self._validation,
            f"{family} (spread)": self._spread,
            f"{VALIDATION}{family} (spread)": self._validation_spread,
        }

    def axis_name(self) -> str:
        """Return the quantity on the x axis: `time`, `step` or `epoch`."""
        return self.controls.axis

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the nearest step with its epoch, time and value, and the nearest validation."""
        if self.run_series is None:
            return None
        axis = self.axis(self.run_series)
        train, validation = self._train_and_validation(self.run_series)
        if not train and not validation:
            return None
        found = [(ranks is train, ranks, self._nearest(ranks, axis, x)) for ranks in (train, validation) if ranks]
        step, time = found[0][2]
        place = axis.place(np.array([step if axis.column == "step" else time]))
        rows = [self._row(is_train, ranks, near) for is_train, ranks, (near, _) in found]
        return HoverReading(x=float(place[0]), rows=(HoverRow(label=self._position_text(step, time)), *rows))

    def _nearest(self, ranks: list[Series], axis: Axis, x: float) -> tuple[int, float]:
        """Return the nearest step and the time at which a rank reached it, in unix seconds."""
        points = [point for series in ranks if (point := series.nearest(axis, x)) is not None]
        wanted = axis.locate(x)
        nearest = min(points, key=lambda point: abs((point.step if axis.column == "step" else point.time) - wanted))
        return nearest.step, nearest.time

    def _row(self, is_train: bool, ranks: list[Series], step: int) -> HoverRow:
        values = [point.value for point in at_step(ranks, step)]
        value = f"{values[0] if len(values) == 1 else mean_of(values):.5g}"
        numbers = [each for each in values if np.isfinite(each)]
        if len(numbers) > 1:
            value += f" ({min(numbers):.4g} to {max(numbers):.4g})"
        if is_train:
            return HoverRow(label="train", value=value, colour=self.theme.train)
        return HoverRow(label="validation", value=f"{value} at step {number(step, 1)}", colour=self.theme.validation)

    def _position_text(self, step: int, time: float) -> str:
        assert self.run_series is not None
        axes = self.run_series.axes
        seconds = clock(time - axes["time"].origin)
        epoch = f"epoch {step / axes['epoch'].unit:.2f} \u00b7 " if "epoch" in axes else ""
        return f"step {number(step, 1)} \u00b7 {epoch}{seconds}"

    def _train_and_validation(self, run_series: RunSeries) -> tuple[list[Series], list[Series]]:
        """Return the training series and the validation series of each rank."""
        family = self.controls.family
        return of_ranks(run_series.metrics, family), of_ranks(run_series.metrics, VALIDATION + family)

    def _has_data(self, run_series: RunSeries) -> bool:
        families = _families(run_series)
        self.controls.offer_families(families)
        self.title.setVisible(families == ["loss"])
        self.controls.offer_epochs("epoch" in run_series.axes)
        return self.axis_name() in run_series.axes and any(
            series.min is not None for ranks in self._train_and_validation(run_series) for series in ranks
        )

    def _empty_text(self) -> str:
        measured = self.run_series is not None and any(self._train_and_validation(self.run_series))
        if self.run_series is None or not measured or self.axis_name() not in self.run_series.axes:
            return super()._empty_text()
        name = self.controls.family.replace("_", " ")
        return f"All {name} values {'of this run' if self.run_series.training_ended else 'so far'} are NaN or infinite"

    def _whole_span(self, run_series: RunSeries) -> Span:
        if self.axis_name() == "time":
            return super()._whole_span(run_series)
        last = max(float(series.steps[-1]) for ranks in self._train_and_validation(run_series) for series in ranks)
        lo, hi = self.axis(run_series).place(np.array([0.0, max(last, 1.0)]))
        return float(lo), float(hi)

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        train, validation = self._train_and_validation(run_series)
        smoothing = self.controls.smoothing
        if len(train) > 1:
            self._every.clear()
            self._draw_ranks(train, self._mean, self._spread, run_series=run_series, span=span, pixels=pixels)
        else:
            self._spread.clear()
            self._draw_one(train, run_series, span, pixels, self._every)
            self._draw_mean(train if smoothing else [], run_series, span, pixels)
        if len(validation) > 1:
            self._draw_ranks(
                validation, self._validation, self._validation_spread, run_series=run_series, span=span, pixels=pixels
            )
        else:
            self._validation_spread.clear()
            self._draw_one(validation, run_series, span, pixels, self._validation)

    def _draw_one(self, ranks: list[Series], run_series: RunSeries, span: Span, pixels: int, line: LineItem) -> None:
        axis, log = self.axis(run_series), self.controls.logarithmic
        if ranks:
            line.show(*self._split_at_resumes(axis, *ranks[0].view(axis, *span, pixels, positive=log)), logarithmic=log)
        else:
            line.clear()

    def _draw_mean(self, ranks: list[Series], run_series: RunSeries, span: Span, pixels: int) -> None:
        axis, log = self.axis(run_series), self.controls.logarithmic
        if ranks:
            self._mean.show(*self._split_at_resumes(axis, *self._smooth(ranks[0], axis, span, pixels)), logarithmic=log)
        else:
            self._mean.clear()

    def _draw_ranks(
        self, ranks: list[Series], line: LineItem, band: BandItem, *, run_series: RunSeries, span: Span, pixels: int
    ) -> None:
        axis, log = self.axis(run_series), self.controls.logarithmic
        # Smooth validation only if it has more points than pixels.
        min_window = self.controls.smoothing if line is self._mean else 1
        window = max(self._window(series, axis, span, pixels, min_window) for series in ranks)
        found = combine(ranks, axis, span, pixels, window, positive=log)
        line.show(*self._split_at_resumes(axis, found.x, found.mean), logarithmic=log)
        x, low = self._split_at_resumes(axis, found.x, found.low)
        band.show(x, low, self._split_at_resumes(axis, found.x, found.high)[1], logarithmic=log)

    def _split_at_resumes(self, axis: Axis, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Insert a gap (NaN) at each resume: on a time axis nothing was measured during the pause."""
        at = axis.place(np.array(self.resumed)) if axis.column == "time" else np.empty(0)
        places = np.searchsorted(x, at)
        inside = (places > 0) & (places < len(x))
        if not inside.any():
            return x, y
        return np.insert(x, places[inside], at[inside]), np.insert(y, places[inside], np.nan)

    def _smooth(self, train: Series, axis: Axis, span: Span, pixels: int) -> tuple[Floats, Floats]:
        window = self._window(train, axis, span, pixels, self.controls.smoothing)
        x, y = train.smooth(axis, *span, pixels, window)
        return x, np.where(y > 0, y, np.nan) if self.controls.logarithmic else y

    @staticmethod
    def _window(series: Series, axis: Axis, span: Span, pixels: int, min_window: int) -> int:
        """Return how many values to average: at least those of one pixel, else the line would show random samples."""
        inside = np.searchsorted(series.steps if axis.column == "step" else series.times, _span_on_axis(axis, span))
        return max(min_window, -(-int(inside[1] - inside[0]) // pixels), 1)

    def _y_span(self) -> Span | None:
        shown = [y for _, y in self.curves().values()]
        heights = np.concatenate(shown) if shown else np.empty(0)
        heights = heights[np.isfinite(heights)]
        if not len(heights):
            return None
        if self.controls.logarithmic:
            heights = np.log10(heights)
        lo, hi = float(heights.min()), float(heights.max())
        room = 0.05 * (hi - lo) or 0.5 * abs(hi) or 0.5
        return lo - room, hi + room

    def _readout(self, run_series: RunSeries) -> list[HoverRow]:
        train, validation = self._train_and_validation(run_series)
        rows = []
        recent = [mean for series in train if (mean := series.recent(max(self.controls.smoothing, 1))) is not None]
        if recent:
            rows.append(HoverRow(label="train", value=f"{mean_of(recent):.4g}", colour=self.theme.train))
        last = [series.last for series in validation if series.last is not None]
        if last:
            value = last[0] if len(last) == 1 else mean_of(last)
            rows.append(HoverRow(label="validation", value=f"{value:.4g}", colour=self.theme.validation))
        return rows

    def _apply_theme(self, theme: Theme) -> None:
        smoothed = self.controls.smoothing > 0
        self._every.paint_in(theme.train_faint if smoothed else theme.train)
        self._mean.paint_in(theme.train, width=2)
        self._validation.paint_in(theme.validation, width=1.5)
        self._spread.paint_in(theme.train)
        self._validation_spread.paint_in(theme.validation)

    def _apply_controls(self) -> None:
        """Apply the controls."""
        self.canvas.bottom.show_kind(self.axis_name())
        self.canvas.left.show_logarithmic(self.controls.logarithmic)
        self._apply_theme(self.theme)
        self.set_follow(True)
        if self._axis_name != self.axis_name():
            self._axis_name = self.axis_name()
            self.axis_changed.emit()


def _families(run_series: RunSeries) -> list[str]:
    """Return the metrics without validation twins and other ranks: the loss first, then other losses."""
    names = {own_name(name, run_series.metrics).removeprefix(VALIDATION): None for name in run_series.metrics}
    if not names.keys() - {"learning_rate"}:
        names = {"loss": None, **names}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name, name == "learning_rate"))


def _span_on_axis(axis: Axis, span: Span) -> Floats:
    return np.array([axis.locate(span[0]), axis.locate(span[1])])
