"""The loss, or another metric, of a run: every step faint, its moving mean bold, validation dashed.

Where several ranks measure it, the mean of all is drawn, and a faint band from the least to the greatest.
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
from .ranks import at_step, mean_of, of_ranks, own_name, together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.min_max_tree import Floats
    from core.series.run_series import RunSeries
    from core.series.series import Axis, Series
    from gui.style.theme import Theme

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
        self._spread, self._validation_spread = BandItem(plot, depth=-2), BandItem(plot, depth=-1)
        self._every = LineItem(plot)
        self._mean = LineItem(plot, depth=2)
        self._validation = LineItem(plot, depth=4, dashed=True, marked=True)
        self.set_theme(theme)
        self._set()

    def lines(self) -> Mapping[str, LineItem | BandItem]:
        """The lines: the metric, its mean, and its validation values; and how far ranks are from each other."""
        family = self.controls.family
        return {
            family: self._every,
            f"{family} (mean)": self._mean,
            VALIDATION + family: self._validation,
            f"{family} (spread)": self._spread,
            f"{VALIDATION}{family} (spread)": self._validation_spread,
        }

    def axis_name(self) -> str:
        """What the x axis is: `time`, `step` or `epoch`."""
        return self.controls.axis

    def read(self, x: float) -> HoverReading | None:
        """The nearest step with its epoch, time and value, and the nearest validation."""
        if self.book is None:
            return None
        axis = self.axis(self.book)
        train, validation = self._pair(self.book)
        if not train and not validation:
            return None
        found = [(ranks is train, ranks, self._nearest(ranks, axis, x)) for ranks in (train, validation) if ranks]
        step, time = found[0][2]
        place = axis.place(np.array([step if axis.column == "step" else time]))
        rows = [self._row(trained, ranks, near) for trained, ranks, (near, _) in found]
        return HoverReading(x=float(place[0]), rows=(HoverRow(label=self._where(step, time)), *rows))

    def _nearest(self, ranks: list[Series], axis: Axis, x: float) -> tuple[int, float]:
        """The step that is nearest, and when some rank was there, unix seconds."""
        points = [point for series in ranks if (point := series.nearest(axis, x)) is not None]
        wanted = axis.locate(x)
        nearest = min(points, key=lambda point: abs((point.step if axis.column == "step" else point.time) - wanted))
        return nearest.step, nearest.time

    def _row(self, trained: bool, ranks: list[Series], step: int) -> HoverRow:
        values = [point.value for point in at_step(ranks, step)]
        value = f"{values[0] if len(values) == 1 else mean_of(values):.5g}"
        numbers = [each for each in values if np.isfinite(each)]
        if len(numbers) > 1:
            value += f" ({min(numbers):.4g} to {max(numbers):.4g})"
        if trained:
            return HoverRow(label="train", value=value, colour=self.theme.train)
        return HoverRow(label="validation", value=f"{value} at step {number(step, 1)}", colour=self.theme.validation)

    def _where(self, step: int, time: float) -> str:
        assert self.book is not None
        axes = self.book.axes
        seconds = clock(time - axes["time"].origin)
        epoch = f"epoch {step / axes['epoch'].unit:.2f} \u00b7 " if "epoch" in axes else ""
        return f"step {number(step, 1)} \u00b7 {epoch}{seconds}"

    def _pair(self, book: RunSeries) -> tuple[list[Series], list[Series]]:
        """Of every rank, what was measured in training, and in validation."""
        family = self.controls.family
        return of_ranks(book.metrics, family), of_ranks(book.metrics, VALIDATION + family)

    def _has_something(self, book: RunSeries) -> bool:
        families = _families(book)
        self.controls.offer_families(families)
        self.title.setVisible(families == ["loss"])
        self.controls.offer_epochs("epoch" in book.axes)
        return self.axis_name() in book.axes and any(
            series.min is not None for ranks in self._pair(book) for series in ranks
        )

    def _why_nothing(self) -> str:
        measured = self.book is not None and any(self._pair(self.book))
        if self.book is None or not measured or self.axis_name() not in self.book.axes:
            return super()._why_nothing()
        name = self.controls.family.replace("_", " ")
        return f"No {name} {'of this run' if self.book.training_ended else 'so far'} is a number"

    def _whole_span(self, book: RunSeries) -> Span:
        if self.axis_name() == "time":
            return super()._whole_span(book)
        last = max(float(series.steps[-1]) for ranks in self._pair(book) for series in ranks)
        lo, hi = self.axis(book).place(np.array([0.0, max(last, 1.0)]))
        return float(lo), float(hi)

    def _draw(self, book: RunSeries, span: Span, pixels: int) -> None:
        train, validation = self._pair(book)
        smoothing = self.controls.smoothing
        if len(train) > 1:
            self._every.clear()
            self._draw_ranks(train, self._mean, self._spread, book=book, span=span, pixels=pixels)
        else:
            self._spread.clear()
            self._draw_one(train, book, span, pixels, self._every)
            self._draw_mean(train if smoothing else [], book, span, pixels)
        if len(validation) > 1:
            self._draw_ranks(validation, self._validation, self._validation_spread, book=book, span=span, pixels=pixels)
        else:
            self._validation_spread.clear()
            self._draw_one(validation, book, span, pixels, self._validation)

    def _draw_one(self, ranks: list[Series], book: RunSeries, span: Span, pixels: int, line: LineItem) -> None:
        axis, log = self.axis(book), self.controls.logarithmic
        if ranks:
            line.show(*self._parted(axis, *ranks[0].view(axis, *span, pixels, positive=log)), logarithmic=log)
        else:
            line.clear()

    def _draw_mean(self, ranks: list[Series], book: RunSeries, span: Span, pixels: int) -> None:
        axis, log = self.axis(book), self.controls.logarithmic
        if ranks:
            self._mean.show(*self._parted(axis, *self._smooth(ranks[0], axis, span, pixels)), logarithmic=log)
        else:
            self._mean.clear()

    def _draw_ranks(
        self, ranks: list[Series], line: LineItem, band: BandItem, *, book: RunSeries, span: Span, pixels: int
    ) -> None:
        axis, log = self.axis(book), self.controls.logarithmic
        # Validation is not smoothed, unless there is more of it than pixels.
        least = self.controls.smoothing if line is self._mean else 1
        window = max(self._window(series, axis, span, pixels, least) for series in ranks)
        found = together(ranks, axis, span, pixels, window, positive=log)
        line.show(*self._parted(axis, found.x, found.mean), logarithmic=log)
        x, low = self._parted(axis, found.x, found.low)
        band.show(x, low, self._parted(axis, found.x, found.high)[1], logarithmic=log)

    def _parted(self, axis: Axis, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """With a gap (NaN) wherever the run was resumed: over time, nothing was measured while it was paused."""
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
    def _window(series: Series, axis: Axis, span: Span, pixels: int, least: int) -> int:
        """How many values to draw the mean of. Of less than a pixel's steps it would be noise picked at random."""
        inside = np.searchsorted(series.steps if axis.column == "step" else series.times, _raw(axis, span))
        return max(least, -(-int(inside[1] - inside[0]) // pixels), 1)

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

    def _readout(self, book: RunSeries) -> list[HoverRow]:
        train, validation = self._pair(book)
        rows = []
        recent = [mean for series in train if (mean := series.recent(max(self.controls.smoothing, 1))) is not None]
        if recent:
            rows.append(HoverRow(label="train", value=f"{mean_of(recent):.4g}", colour=self.theme.train))
        last = [series.last for series in validation if series.last is not None]
        if last:
            value = last[0] if len(last) == 1 else mean_of(last)
            rows.append(HoverRow(label="validation", value=f"{value:.4g}", colour=self.theme.validation))
        return rows

    def _wear(self, theme: Theme) -> None:
        smoothed = self.controls.smoothing > 0
        self._every.paint_in(theme.train_faint if smoothed else theme.train)
        self._mean.paint_in(theme.train, width=2)
        self._validation.paint_in(theme.validation, width=1.5)
        self._spread.paint_in(theme.train)
        self._validation_spread.paint_in(theme.validation)

    def _set(self) -> None:
        """Take over what the user has set."""
        self.canvas.bottom.show_kind(self.axis_name())
        self.canvas.left.show_logarithmic(self.controls.logarithmic)
        self._wear(self.theme)
        self.set_follow(True)
        if self._axis_name != self.axis_name():
            self._axis_name = self.axis_name()
            self.axis_changed.emit()


def _families(book: RunSeries) -> list[str]:
    """The metrics without their `val_` twins and those of other ranks: the loss first, else what is called a loss."""
    names = {own_name(name, book.metrics).removeprefix(VALIDATION): None for name in book.metrics}
    if not names.keys() - {"learning_rate"}:
        names = {"loss": None, **names}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name, name == "learning_rate"))


def _raw(axis: Axis, span: Span) -> Floats:
    return np.array([axis.locate(span[0]), axis.locate(span[1])])
