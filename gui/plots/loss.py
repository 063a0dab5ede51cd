"""The loss, or another metric, of a run: every step faint, its moving mean bold, validation dashed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .axes import clock, number
from .base import Plot
from .hover import Reading, Row
from .line import Line
from .loss_controls import LossControls

if TYPE_CHECKING:
    from core.book import SeriesBook
    from core.pyramid import Floats
    from core.series import Axis, Point, Series
    from gui.theme import Theme

    from .base import Span

VALIDATION = "val_"


class LossPlot(Plot):
    """One family of metrics, such as `loss` and `val_loss`, over steps, time or epochs."""

    y_by_hand = True

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__(name=name, title=title, theme=theme)
        self.controls = LossControls()
        self.header.insertWidget(0, self.controls.metric_box)
        self.header.insertWidget(3, self.controls)
        self.controls.changed.connect(self._set)
        self._axis_name = self.controls.axis
        plot = self.canvas.getPlotItem()
        self._every = Line(plot)
        self._mean = Line(plot, depth=2)
        self._validation = Line(plot, depth=4, dashed=True, marked=True)
        self.set_theme(theme)
        self._set()

    def lines(self) -> dict[str, Line]:
        """The lines: the metric, its mean, and its validation values."""
        family = self.controls.family
        return {family: self._every, f"{family} (mean)": self._mean, VALIDATION + family: self._validation}

    def axis_name(self) -> str:
        """What the x axis is: `time`, `step` or `epoch`."""
        return self.controls.axis

    def read(self, x: float) -> Reading | None:
        """The nearest step with its epoch, time and value, and the nearest validation."""
        if self.book is None:
            return None
        axis = self.axis(self.book)
        train, validation = self._pair(self.book)
        found = [(metric, metric.nearest(axis, x)) for metric in (train, validation) if metric is not None]
        points = [point for _, point in found if point is not None]
        if not points:
            return None
        head = points[0]
        place = axis.place(np.array([head.step if axis.column == "step" else head.time]))
        rows = [self._row(metric is train, point) for metric, point in found if point is not None]
        return Reading(x=float(place[0]), rows=(Row(label=self._where(head.step, head.time)), *rows))

    def _row(self, trained: bool, point: Point) -> Row:
        value = f"{point.value:.5g}"
        if trained:
            return Row(label="train", value=value, colour=self.theme.train)
        at = f"{value} at step {number(point.step, 1)}"
        return Row(label="validation", value=at, colour=self.theme.validation)

    def _where(self, step: int, time: float) -> str:
        assert self.book is not None
        axes = self.book.axes
        seconds = clock(time - axes["time"].origin)
        epoch = f"epoch {step / axes['epoch'].unit:.2f} \u00b7 " if "epoch" in axes else ""
        return f"step {number(step, 1)} \u00b7 {epoch}{seconds}"

    def _pair(self, book: SeriesBook) -> tuple[Series | None, Series | None]:
        family = self.controls.family
        return book.metrics.get(family), book.metrics.get(VALIDATION + family)

    def _has_something(self, book: SeriesBook) -> bool:
        families = _families(book)
        self.controls.offer_families(families)
        self.title.setVisible(len(families) == 1)
        self.controls.offer_epochs("epoch" in book.axes)
        return self.axis_name() in book.axes and any(
            metric is not None and metric.min is not None for metric in self._pair(book)
        )

    def _why_nothing(self) -> str:
        measured = self.book is not None and any(metric is not None and len(metric) for metric in self._pair(self.book))
        if self.book is None or not measured or self.axis_name() not in self.book.axes:
            return super()._why_nothing()
        name = self.controls.family.replace("_", " ")
        return f"No {name} {'of this run' if self.book.training_ended else 'so far'} is a number"

    def _whole_span(self, book: SeriesBook) -> Span:
        if self.axis_name() == "time":
            return super()._whole_span(book)
        last = max(float(metric.steps[-1]) for metric in self._pair(book) if metric is not None and len(metric))
        lo, hi = self.axis(book).place(np.array([0.0, max(last, 1.0)]))
        return float(lo), float(hi)

    def _draw(self, book: SeriesBook, span: Span, pixels: int) -> None:
        axis, log = self.axis(book), self.controls.logarithmic
        train, validation = self._pair(book)
        for line, metric in ((self._every, train), (self._validation, validation)):
            if metric is None:
                line.clear()
            else:
                line.show(*self._parted(axis, *metric.view(axis, *span, pixels, positive=log)), logarithmic=log)
        if train is None or not self.controls.smoothing:
            self._mean.clear()
        else:
            self._mean.show(*self._parted(axis, *self._smooth(train, axis, span, pixels)), logarithmic=log)

    def _parted(self, axis: Axis, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """With a gap (NaN) wherever the run was resumed: over time, nothing was measured while it was paused."""
        at = axis.place(np.array(self.resumed)) if axis.column == "time" else np.empty(0)
        places = np.searchsorted(x, at)
        inside = (places > 0) & (places < len(x))
        if not inside.any():
            return x, y
        return np.insert(x, places[inside], at[inside]), np.insert(y, places[inside], np.nan)

    def _smooth(self, train: Series, axis: Axis, span: Span, pixels: int) -> tuple[Floats, Floats]:
        # A mean of less than a pixel's steps would be noise picked at random: it is at least of these.
        inside = np.searchsorted(train.steps if axis.column == "step" else train.times, _raw(axis, span))
        window = max(self.controls.smoothing, -(-int(inside[1] - inside[0]) // pixels))
        x, y = train.smooth(axis, *span, pixels, window)
        return x, np.where(y > 0, y, np.nan) if self.controls.logarithmic else y

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

    def _readout(self, book: SeriesBook) -> list[Row]:
        train, validation = self._pair(book)
        rows = []
        if train is not None and (mean := train.recent(max(self.controls.smoothing, 1))) is not None:
            rows.append(Row(label="train", value=f"{mean:.4g}", colour=self.theme.train))
        if validation is not None and (last := validation.last) is not None:
            rows.append(Row(label="validation", value=f"{last:.4g}", colour=self.theme.validation))
        return rows

    def _wear(self, theme: Theme) -> None:
        smoothed = self.controls.smoothing > 0
        self._every.paint_in(theme.train_faint if smoothed else theme.train)
        self._mean.paint_in(theme.train, width=2)
        self._validation.paint_in(theme.validation, width=1.5)

    def _set(self) -> None:
        """Take over what the user has set."""
        self.canvas.bottom.show_kind(self.axis_name())
        self.canvas.left.show_logarithmic(self.controls.logarithmic)
        self._wear(self.theme)
        self.set_follow(True)
        if self._axis_name != self.axis_name():
            self._axis_name = self.axis_name()
            self.axis_changed.emit()


def _families(book: SeriesBook) -> list[str]:
    """The metrics without their `val_` twins, the loss first."""
    names = {name.removeprefix(VALIDATION): None for name in book.metrics}
    return ["loss", *(name for name in names if name != "loss")]


def _raw(axis: Axis, span: Span) -> Floats:
    return np.array([axis.locate(span[0]), axis.locate(span[1])])
