"""The smoothed line of a metric and its spread; the range of the y axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPoint, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSlider, QToolButton, QVBoxLayout, QWidget

from core.language import tr, tr_noop
from core.series.min_max_tree import Floats
from gui.plots.card import Span
from gui.widgets.plain_text import PlainLabel, named

OUTSIDE_SHARE = 0.01
"""Share of a line's values at either end that may lie outside."""
MIN_VALUES = 20
"""A line with fewer values is shown whole."""
NEAR_SHARE = 0.5
"""Values beyond the range by at most this share of its height are shown all the same."""
ROOM_SHARE = 0.05
"""Free room above and below the lines."""


def fitting_range(lines: Sequence[Floats], *, ignore_outliers: bool) -> Span | None:
    """Return the range that suits these lines, with some room; None if they have no finite value.

    With `ignore_outliers`, it reaches from the 1st to the 99th percentile of each line, and to the values beyond that
    are near. Each line counts by itself: a validation has a hundredth of the values of the training.
    """
    finite = [line[np.isfinite(line)] for line in lines]
    finite = [line for line in finite if len(line)]
    if not finite:
        return None
    lo, hi = min(float(line.min()) for line in finite), max(float(line.max()) for line in finite)
    if ignore_outliers:
        inner = [_percentiles(line) for line in finite]
        lo, hi = min(ends[0] for ends in inner), max(ends[1] for ends in inner)
        near = NEAR_SHARE * (hi - lo)
        inside = [line[(line >= lo - near) & (line <= hi + near)] for line in finite]
        lo, hi = min(float(line.min()) for line in inside), max(float(line.max()) for line in inside)
    room = ROOM_SHARE * (hi - lo) or 0.5 * abs(hi) or 0.5
    return lo - room, hi + room


def _percentiles(line: Floats) -> Span:
    """Return values of the line itself, rounded towards its middle: one of twenty values may be an outlier too."""
    if len(line) < MIN_VALUES:
        return float(line.min()), float(line.max())
    outside = max(int(OUTSIDE_SHARE * len(line)), 1)
    ordered = np.partition(line, (outside, len(line) - 1 - outside))
    return float(ordered[outside]), float(ordered[-1 - outside])


MAX_WEIGHT = 0.99
DEFAULT_WEIGHT = 0.6
"""TensorBoard's default."""
PARTS = 100
"""Positions of the slider in 1."""
EXPLANATION = tr_noop("The bold line is an exponential mean of the steps.\n0 shows the steps alone.")
TIP = tr_noop("Smoothing: weight of the exponential mean that the bold line shows, as in TensorBoard")


class SmoothingButton(QToolButton):
    """Shows the weight, and a slider when it is pressed. Emits `changed` when the weight changes."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.weight = DEFAULT_WEIGHT
        self.popup: SmoothingPopup | None = None
        """Created when it is needed."""
        named(self, "smoothingButton", tip=tr(TIP), compact=True, opens=True)
        self.clicked.connect(self.open)
        self._show_weight()

    def set_weight(self, weight: float) -> None:
        """Set the weight, from 0 to `MAX_WEIGHT`."""
        if weight == self.weight:
            return
        self.weight = weight
        self._show_weight()
        self.changed.emit()

    def open(self) -> None:
        """Open the slider below the button."""
        popup = self._popup()
        with QSignalBlocker(popup.slider):  # a weight between two positions stays as it is
            popup.slider.setValue(round(self.weight * PARTS))
        popup.adjustSize()
        popup.move(self.mapToGlobal(QPoint(0, self.height() + 2)))
        popup.show()

    def hold(self, widgets: Sequence[QWidget]) -> None:
        """Take in widgets for which there is no room elsewhere: they are shown below the slider."""
        for widget in widgets:
            self._popup().column.addWidget(widget)
            widget.show()

    def _popup(self) -> SmoothingPopup:
        if self.popup is None:
            self.popup = SmoothingPopup(self)
        return self.popup

    def _show_weight(self) -> None:
        text = tr("smooth {weight:.2g}", weight=self.weight) if self.weight else tr("not smoothed")
        self.setText(text)
        self.setAccessibleName(
            tr("Smoothing: {weight:.2g}", weight=self.weight) if self.weight else tr("Smoothing: none")
        )


class SmoothingPopup(QFrame):
    """A slider below its button. A click outside or Esc closes it."""

    def __init__(self, button: SmoothingButton) -> None:
        super().__init__(button, Qt.WindowType.Popup)
        named(self, "smoothingPopup", card=True)
        self.slider = named(QSlider(Qt.Orientation.Horizontal), "smoothingSlider", tr("Weight of the mean"))
        self.slider.setRange(0, round(MAX_WEIGHT * PARTS))
        self.slider.setSingleStep(1)
        self.slider.setPageStep(10)
        self.slider.setMinimumWidth(24 * self.fontMetrics().averageCharWidth())
        explanation = PlainLabel(tr(EXPLANATION), role="small")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(14, 12, 14, 12)
        self.column.setSpacing(8)
        for widget in (self.slider, explanation):
            self.column.addWidget(widget)
        self.slider.valueChanged.connect(lambda value: button.set_weight(value / PARTS))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the slider the keys."""
        super().showEvent(event)
        self.slider.setFocus(Qt.FocusReason.PopupFocusReason)


class FoldingControls(QWidget):
    """Controls in the head of a plot. Where there is no room for all, some are below the slider of the smoothing."""

    def lay_out(self, always: Sequence[QWidget], folding: Sequence[Sequence[QWidget]], button: SmoothingButton) -> None:
        """Place the controls.

        `always`: stay in the head; `folding`: groups that go below the slider that `button` opens, the last one first.
        """
        self._always, self._folding, self._button = tuple(always), tuple(map(tuple, folding)), button
        self._fitting = len(self._folding)
        """The number of groups that are in the head."""
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        for widget in (*always, *self._groups(len(folding))):
            self._row.addWidget(widget)
        self._row.addStretch(1)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return room for all controls that are in use, wherever they are now."""
        return self._room_with(len(self._folding))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return room for the controls that are always in the head."""
        return self._room_for(self._always)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Put the folding controls where there is room for them."""
        super().resizeEvent(event)
        self._fold()

    def show_used(self, widget: QWidget, *, used: bool) -> None:
        """Show a folding control, or hide it wherever it is."""
        widget.setProperty("unused", not used)
        widget.setVisible(used)
        self.updateGeometry()
        self._fold()

    def _fold(self) -> None:
        every = len(self._folding)
        fitting = next((each for each in range(every, 0, -1) if self._room_with(each).width() <= self.width()), 0)
        if fitting == self._fitting:
            return
        self._fitting = fitting
        for place, widget in enumerate(self._groups(fitting), start=len(self._always)):
            self._row.insertWidget(place, widget)
        self._button.hold([widget for group in self._folding[fitting:] for widget in group])
        for widget in self._groups(every):
            widget.setVisible(not widget.property("unused"))

    def _groups(self, count: int) -> list[QWidget]:
        return [widget for group in self._folding[:count] for widget in group]

    def _room_with(self, count: int) -> QSize:
        """Return the room for the controls with the first groups of those that fold."""
        return self._room_for([*self._always, *(each for each in self._groups(count) if not each.property("unused"))])

    def _room_for(self, widgets: Sequence[QWidget]) -> QSize:
        hints = [widget.sizeHint() for widget in widgets]
        gaps = self._row.spacing() * (len(hints) - 1)
        return QSize(sum(hint.width() for hint in hints) + gaps, max(hint.height() for hint in hints))
