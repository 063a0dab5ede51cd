"""The metrics of a run that the big plot does not show, as small cards at its right."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QPushButton, QScrollArea, QSizePolicy, QWidget

from core.diagnosis.timeline import RATES, metric_title
from core.language import tr
from core.results.measured_run import lower_is_better
from core.series.series import Axis
from gui.base.formatting import number
from gui.base.painting import small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.card import FARTHEST, Span
from gui.plots.items.canvas import round_spacing
from gui.plots.items.lines import LineData
from gui.plots.loss import LossPlot, value_text
from gui.plots.ranks import VALIDATION, Family, combine, families, fitting_range, mean_of, own_name
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import select
from gui.widgets.layouts import hbox, scroll_down, vbox
from gui.widgets.plain_text import PlainLabel, named

PLOT_PX, CARD_PX, LEAST_PX, GAP_PX, MOST = 690, 206, 110, 8, 48
"""Least width of the big plot beside cards; width, least height, distance and largest number of cards."""
ROW_PX, MEAN_PX = 24, 2
"""Least distance of the numbers beside a curve; width of the columns of which it shows the mean."""
ZERO_SHARE = 0.06
"""Room for the number 0 below an axis that begins there, as a share of its height."""
PAUSE_S = 2.0
"""Least time between two drawings of new values."""


class SmallCurve(QWidget):
    """Lines by the name of their colour, with a vertical axis alone."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = {name: LineData() for name in ("train_faint", "train", "validation")}
        self.crosshair: float | None = None
        self._span = self._ends = (0.0, 1.0)

    def show_lines(
        self, points: Mapping[str, Sequence[ArrayLike]], span: Span | None = None, *, ignore_outliers: bool = False,
        from_zero: bool = False,
    ) -> None:
        """Show positions and values, n each, over a range of the x axis: without one, that of the line `train`.

        `from_zero`: begin the y axis at 0, so that what hardly varies does not look wild.
        """
        for name, line in self.lines.items():
            line.paint_in(getattr(current_theme(), name))
            x, y = (np.array(each, dtype=np.float64) for each in points.get(name, ((), ())))
            line.show(x, y)
        x = self.lines["train"].x
        ends = fitting_range([line.y for line in self.lines.values()], ignore_outliers=ignore_outliers) or (0.0, 1.0)
        self._span = span or ((x[0], x[-1]) if len(x) else self._span)
        lowest = -ZERO_SHARE * ends[1] if from_zero else ends[0]
        self._ends = max(lowest, -FARTHEST), min(ends[1], FARTHEST)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the numbers, the lines and the crosshair."""
        painter, (left, right), (low, high) = QPainter(self), self._span, self._ends
        painter.setFont(small_font(self.font()))
        spacing = round_spacing((high - low) * scaled(ROW_PX) / max(self.height(), 1))
        numbers = [at * spacing for at in range(math.ceil(low / spacing), math.floor(high / spacing) + 1)]
        texts = [number(each, spacing) for each in numbers]
        width = max(map(painter.fontMetrics().horizontalAdvance, texts), default=0)
        area = QRectF(self.rect()).adjusted(width + 6, 6, 0, 0)
        for value, text in zip(numbers, texts, strict=True):
            y = area.bottom() - (value - low) / (high - low) * area.height()
            painter.setPen(current_theme().grid)
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(current_theme().muted)
            x = area.left() - 6 - painter.fontMetrics().horizontalAdvance(text)
            painter.drawText(QPointF(x, y + painter.fontMetrics().capHeight() / 2), text)
        painter.setClipRect(area)
        painter.translate(area.bottomLeft())
        painter.scale(area.width() / max(right - left, 1 / FARTHEST), -area.height() / (high - low))
        painter.translate(-left, -low)
        for name, line in self.lines.items():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, name != "train_faint")  # a band takes long
            painter.setPen(line.pen)
            painter.drawPath(line.path)
        if self.crosshair is not None:
            pen = QPen(QColor(current_theme().muted))
            pen.setCosmetic(True)  # one pixel wide, whatever the scale
            painter.setPen(pen)
            painter.drawLine(QPointF(self.crosshair, low), QPointF(self.crosshair, high))


class MetricCard(QPushButton):
    """The name, the newest and the best value of a metric, and its curve."""

    def __init__(self) -> None:
        super().__init__()
        named(self, card=True)
        self.metric_name, self.curve = "", SmallCurve()
        self._title, self._more, self._value = ElidedLabel(role="title"), ElidedLabel(role="small"), PlainLabel()
        column = vbox(self, self._title, gap=2, margins=(12, 8, 12, 8))
        hbox(column, named(self._value, role="heading"), 0, self._more, gap=8)
        column.addWidget(self.curve, 1)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self.setAutoDefault(True)  # Enter is a click

    def show_metric(self, family: Family, axis: Axis, span: Span, *, ignore_outliers: bool) -> None:
        """Show a metric over a range of the x axis; spikes may lie outside if it shall `ignore_outliers`."""
        newest, lower = family.validation or family.train, lower_is_better(family.name)
        self.metric_name, title = family.name, metric_title(family.name)
        # The value of several ranks is a mean, and no rank's best step can be compared with it.
        ends = [end for each in newest if lower is not None and (end := each.min if lower else each.max) is not None]
        ends = ends if len(newest) == 1 else []
        value = value_text(mean_of(each.values[-1] for each in newest), 4)
        best = tr("best {value}", value=value_text(min(ends) if lower else max(ends), 4)) if ends else ""
        self._title.setText(title.upper())
        self._value.setText(value)
        self._more.setText(" · ".join(filter(None, (tr("val.") if family.validation else "", best))))
        self.setAccessibleName(", ".join(filter(None, (f"{title}: {value}", best))))
        pixels = scaled(CARD_PX)
        points = {"train_faint": family.train[0].view(axis, *span, pixels)} if family.train else {}
        for name, ranks in (("train", family.train), ("validation", family.validation)):
            if len(ranks) == 1:
                points[name] = ranks[0].smooth(axis, *span, pixels // MEAN_PX, 0.0)
            elif ranks:
                found = combine(ranks, axis, span, pixels // MEAN_PX, 0.0)
                points[name] = found.x, found.mean
        self.curve.show_lines(points, span, ignore_outliers=ignore_outliers, from_zero=family.name in RATES)


class MetricCards(QWidget):
    """The big plot with the cards at its right, in as many columns as are needed and as the width allows."""

    def __init__(self, big: LossPlot) -> None:
        super().__init__()
        self._big, self._former, self._shape = big, "", (0, 0)
        self._version, self._drawn_at = -1, -PAUSE_S
        self._drawn: tuple[object, ...] = ()
        self.cards: list[MetricCard] = []
        self.names: list[str] = []
        """The metrics of the first cards, which are shown."""
        self._area, page = named(QScrollArea(), "metricCards"), QWidget()
        scroll_down(self._area)
        self._area.setWidget(page)
        self._area.hide()
        self._grid = QGridLayout(page)
        self._grid.setContentsMargins(GAP_PX, 0, 0, 0)
        self._grid.setSpacing(GAP_PX)
        hbox(self, (big, 1), self._area)
        big.canvas.pointed.connect(self._mark)
        for moved in (big.crosshair.sigPositionChanged, big.crosshair.visibleChanged):
            moved.connect(lambda: self._mark(big.crosshair.value() if big.crosshair.isVisible() else None))

    def _inputs(self) -> tuple[object, ...]:
        """Return what the cards depend on. New values count after a pause; a range that follows them, with them."""
        big, look = self._big, (current_theme(), scaled(CARD_PX), self.size(), self._area.underMouse())
        version = self._version if time.monotonic() - self._drawn_at < PAUSE_S else big.version()
        span = None if big.follows else big.canvas.x_range
        return big.run_series, version, big.controls.metric_name, big.controls.remember(), span, look

    def is_due(self) -> bool:
        """Return whether the cards can be seen and show something else than they should."""
        return self.isVisible() and self._big.run_series is not None and self._inputs() != self._drawn

    def redraw(self) -> None:
        """Show the metrics that have a curve, if it `is_due`."""
        big, run_series = self._big, self._big.run_series
        if run_series is None or not self.is_due():
            return
        self._version, self._drawn_at = big.version(), time.monotonic()
        self._drawn = self._inputs()
        drawn, former, self._former = run_series.drawn, self._former, big.controls.metric_name
        curved = {own_name(name, drawn).removeprefix(VALIDATION) for name, each in drawn.items() if len(each) > 1}
        found = [name for name in families(run_series) if name in curved - {self._former}] if big.is_filled() else []
        # Below the mouse, the former big metric takes the place of the new one, and no new card comes.
        kept = [name for name in (former if name == self._former else name for name in self.names) if name in found]
        self.names = kept if kept and self._area.underMouse() else found[:MOST]
        rows = max((self.height() + GAP_PX) // (scaled(LEAST_PX) + GAP_PX), 1)
        most = max(self.width() - scaled(PLOT_PX), 0) // scaled(CARD_PX)
        self._lay_out(min(most, -(-len(self.names) // rows)), len(self.names))
        for card, name in zip(self.cards if self._shape[0] else (), self.names, strict=False):
            axis, outliers = big.axis(run_series), big.controls.ignores_outliers
            card.setMinimumHeight((self.height() + GAP_PX) // rows - GAP_PX)
            card.show_metric(Family.of(run_series, name), axis, big.canvas.x_range, ignore_outliers=outliers)

    def _lay_out(self, columns: int, count: int) -> None:
        while len(self.cards) < count and columns:
            self.cards.append(card := MetricCard())
            card.clicked.connect(lambda _, card=card: select(self._big.controls.metric_box, card.metric_name))
        for at, card in enumerate(self.cards if (columns, count) != self._shape else ()):
            row, column = divmod(at, max(columns, 1))
            self._grid.addWidget(card, row, column, 1, max(columns - column, 1) if at == count - 1 else 1)
            card.setVisible(at < count)
        self._shape = columns, count
        self._area.setVisible(columns > 0)
        self._area.setFixedWidth(columns * scaled(CARD_PX))

    def _mark(self, x: float | None) -> None:
        for card in self.cards:
            card.curve.crosshair = x
            card.curve.update()
