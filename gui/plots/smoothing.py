"""The button `smooth 0.6` in the head of the loss plot, which opens a slider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QFrame, QSlider, QToolButton, QVBoxLayout

from gui.widgets.plain_text import PlainLabel, verbatim

if TYPE_CHECKING:
    from PySide6.QtGui import QShowEvent

MAX_WEIGHT = 0.99
DEFAULT_WEIGHT = 0.6
"""TensorBoard's default."""
PARTS = 100
"""Positions of the slider in 1."""
EXPLANATION = "The bold line is an exponential mean of the steps.\n0 shows the steps alone."
TIP = "Smoothing: weight of the exponential mean that the bold line shows, as in TensorBoard"


class SmoothingButton(QToolButton):
    """Shows the weight, and a slider when it is pressed. Emits `changed` when the weight changes."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.weight = DEFAULT_WEIGHT
        self.popup: SmoothingPopup | None = None
        """Created when it is first opened."""
        self.setObjectName("smoothingButton")
        self.setToolTip(verbatim(TIP))
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
        if self.popup is None:
            self.popup = SmoothingPopup(self)
        self.popup.slider.setValue(round(self.weight * PARTS))
        self.popup.adjustSize()
        self.popup.move(self.mapToGlobal(QPoint(0, self.height() + 2)))
        self.popup.show()

    def _show_weight(self) -> None:
        text = f"smooth {self.weight:.2g}" if self.weight else "not smoothed"
        self.setText(text)
        self.setAccessibleName(f"Smoothing: {self.weight:.2g}" if self.weight else "Smoothing: none")


class SmoothingPopup(QFrame):
    """A slider below its button. A click outside, Esc or Enter closes it."""

    def __init__(self, button: SmoothingButton) -> None:
        super().__init__(button, Qt.WindowType.Popup)
        self.setObjectName("smoothingPopup")
        self.setProperty("card", True)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setObjectName("smoothingSlider")
        self.slider.setAccessibleName("Weight of the mean")
        self.slider.setRange(0, round(MAX_WEIGHT * PARTS))
        self.slider.setSingleStep(1)
        self.slider.setPageStep(10)
        self.slider.setMinimumWidth(24 * self.fontMetrics().averageCharWidth())
        explanation = PlainLabel(EXPLANATION)
        explanation.setProperty("role", "small")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.setSpacing(8)
        for widget in (self.slider, explanation):
            layout.addWidget(widget)
        self.slider.valueChanged.connect(lambda value: button.set_weight(value / PARTS))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the slider the keys."""
        super().showEvent(event)
        self.slider.setFocus(Qt.FocusReason.PopupFocusReason)
