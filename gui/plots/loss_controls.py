"""The settings of the loss plot, small enough for the head of its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QWidget

from .metric_box import MetricBox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QStandardItemModel

WINDOWS = (0, 10, 50, 200, 1000)
DEFAULT_WINDOW = 10
AXES = ("time", "step", "epoch")  # time first: over it the three plots of the window stand above each other


class LossControls(QWidget):
    """Metric, x axis, smoothing and scale; `changed` tells that one of them is another.

    `metric_box` is not laid out here: where there is a choice it stands in the place of the card's title.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._wanted = "loss"
        """The metric that was chosen last, which a run may not have, or not yet."""
        self.metric_box = _shaped(MetricBox(), "metricBox", "Metric", "Which measurement is drawn")
        self.metric_box.setProperty("role", "title")
        self.offer_families(["loss"])
        self.axis_box = _shaped(QComboBox(), "xAxisBox", "X axis", "What the measurements are drawn over")
        for axis in AXES:
            self.axis_box.addItem(f"by {axis}", axis)
        self.smoothing_box = _shaped(QComboBox(), "smoothingBox", "Smoothing", "Mean of so many steps, drawn bold")
        for window in WINDOWS:
            self.smoothing_box.addItem(f"mean of {window}" if window else "not smoothed", window)
        self.smoothing_box.setCurrentIndex(WINDOWS.index(DEFAULT_WINDOW))
        self.log_box = QCheckBox("log")
        self.log_box.setObjectName("logBox")
        self.log_box.setAccessibleName("Logarithmic scale")
        self.log_box.setToolTip("Logarithmic scale; values at or below zero are left out")
        self.log_box.setProperty("compact", True)
        self._lay_out()

    @property
    def family(self) -> str:
        """The metric whose training and validation values are drawn: `loss`, `accuracy`, ..."""
        return str(self.metric_box.currentData())

    @property
    def axis(self) -> str:
        """`step`, `time` or `epoch`."""
        return str(self.axis_box.currentData())

    @property
    def smoothing(self) -> int:
        """How many steps the bold line is the mean of; 0 for none."""
        return int(self.smoothing_box.currentData())

    @property
    def logarithmic(self) -> bool:
        """Whether the y axis is logarithmic."""
        return self.log_box.isChecked()

    def offer_families(self, families: Sequence[str]) -> None:
        """Let the user choose among these metrics; what was chosen is so again as soon as it is among them."""
        if families == [self.metric_box.itemData(row) for row in range(self.metric_box.count())]:
            return
        before = self.metric_box.currentData()
        self.metric_box.blockSignals(True)
        self.metric_box.clear()
        for family in families:
            self.metric_box.addItem(family.replace("_", " ").upper(), family)
            self.metric_box.setItemData(self.metric_box.count() - 1, family, Qt.ItemDataRole.ToolTipRole)
        self.metric_box.setCurrentIndex(max(self.metric_box.findData(self._wanted), 0))
        self.metric_box.blockSignals(False)
        self.metric_box.setVisible(families != ["loss"])
        if before not in {None, self.family}:
            self.changed.emit()

    def offer_epochs(self, known: bool) -> None:
        """Epochs can be chosen once it is known how many steps they have; a choice made before stays."""
        model: QStandardItemModel = self.axis_box.model()  # type: ignore[assignment]  # a QComboBox's own is one
        model.item(AXES.index("epoch")).setEnabled(known)

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for widget in (self.axis_box, self.smoothing_box, self.log_box):
            layout.addWidget(widget)
        self.metric_box.currentIndexChanged.connect(lambda _: self._want())
        for box in (self.metric_box, self.axis_box, self.smoothing_box):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.log_box.toggled.connect(lambda _: self.changed.emit())

    def _want(self) -> None:
        self._wanted = self.family


def _shaped(box: QComboBox, name: str, accessible: str, tip: str) -> QComboBox:
    box.setObjectName(name)
    box.setAccessibleName(accessible)
    box.setToolTip(tip)
    box.setProperty("compact", True)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box
