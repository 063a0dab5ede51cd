"""The button `smooth 0.6` in the head of the loss plot, which opens a slider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QFrame, QSlider, QToolButton, QVBoxLayout

from core.language import tr, tr_noop
from gui.widgets.plain_text import PlainLabel, verbatim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QShowEvent
    from PySide6.QtWidgets import QWidget

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
        self.setObjectName("smoothingButton")
        self.setToolTip(verbatim(tr(TIP)))
        self.setProperty("compact", True)
        self.setProperty("opens", True)
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
        self.setObjectName("smoothingPopup")
        self.setProperty("card", True)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setObjectName("smoothingSlider")
        self.slider.setAccessibleName(tr("Weight of the mean"))
        self.slider.setRange(0, round(MAX_WEIGHT * PARTS))
        self.slider.setSingleStep(1)
        self.slider.setPageStep(10)
        self.slider.setMinimumWidth(24 * self.fontMetrics().averageCharWidth())
        explanation = PlainLabel(tr(EXPLANATION))
        explanation.setProperty("role", "small")
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
