"""The controls in the head of the loss plot: metric, x axis, smoothing, scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QStyle, QStyleOptionComboBox, QWidget

from gui.widgets.choice_box import ChoiceBox
from gui.widgets.forms.fields import select
from gui.widgets.plain_text import verbatim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PySide6.QtGui import QStandardItemModel

WINDOWS = (0, 10, 50, 200, 1000)
DEFAULT_WINDOW = 10
MAX_CHARACTERS = 10
"""Maximum characters of a metric's name to reserve room for."""
AXES = ("time", "step", "epoch")  # time first: all plots of the window share it


class LossControls(QWidget):
    """Emits `changed` when a control changes. `metric_box` is laid out by the plot, in place of the title."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._wanted = "loss"
        """The metric chosen last; the shown run may not have it."""
        self.metric_box = _prepare(MetricBox(), "metricBox", "Metric", "Metric to draw")
        self.metric_box.setProperty("role", "title")
        self.offer_families(["loss"])
        self.axis_box = _prepare(ChoiceBox(), "xAxisBox", "X axis", "Horizontal axis")
        for axis in AXES:
            self.axis_box.addItem(f"by {axis}", axis)
        self.smoothing_box = _prepare(
            ChoiceBox(), "smoothingBox", "Smoothing", "Smoothing: the bold line is the mean of this many steps"
        )
        for window in WINDOWS:
            self.smoothing_box.addItem(f"mean of {window}" if window else "not smoothed", window)
        self.smoothing_box.setCurrentIndex(WINDOWS.index(DEFAULT_WINDOW))
        self.log_box = QCheckBox("log scale")
        self.log_box.setObjectName("logBox")
        self.log_box.setAccessibleName("Logarithmic scale")
        self.log_box.setToolTip("Logarithmic scale; values at or below zero are not drawn")
        self.log_box.setProperty("compact", True)
        self._lay_out()

    @property
    def family(self) -> str:
        """The metric whose training and validation values are drawn, such as `loss`."""
        return str(self.metric_box.currentData())

    @property
    def axis(self) -> str:
        """`step`, `time` or `epoch`."""
        return str(self.axis_box.currentData())

    @property
    def smoothing(self) -> int:
        """Number of steps that the bold line averages; 0 for no smoothing."""
        return int(self.smoothing_box.currentData())

    @property
    def logarithmic(self) -> bool:
        """True if the y axis is logarithmic."""
        return self.log_box.isChecked()

    def offer_families(self, families: Sequence[str]) -> None:
        """Offer these metrics. The metric chosen last is selected again if it is among them."""
        if families == [self.metric_box.itemData(row) for row in range(self.metric_box.count())]:
            return
        before = self.metric_box.currentData()
        self.metric_box.blockSignals(True)
        self.metric_box.clear()
        for family in families:
            self.metric_box.addItem(family.replace("_", " ").upper(), family)
            self.metric_box.setItemData(self.metric_box.count() - 1, verbatim(family), Qt.ItemDataRole.ToolTipRole)
        self.metric_box.setCurrentIndex(max(self.metric_box.findData(self._wanted), 0))
        self.metric_box.blockSignals(False)
        self.metric_box.setVisible(families != ["loss"])
        if before not in {None, self.family}:
            self.changed.emit()

    def offer_epochs(self, known: bool) -> None:
        """Enable the epoch axis if the steps per epoch are known; an earlier choice stays."""
        model: QStandardItemModel = self.axis_box.model()  # type: ignore[assignment]  # the default model of a QComboBox
        model.item(AXES.index("epoch")).setEnabled(known)

    def remember(self) -> dict[str, Any]:
        """Return axis, smoothing and scale, for the settings file."""
        return {"axis": self.axis, "smoothing": self.smoothing, "logarithmic": self.logarithmic}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for box, name, kind in ((self.axis_box, "axis", str), (self.smoothing_box, "smoothing", int)):
            if isinstance(kept.get(name), kind):
                select(box, kept[name])
        self.log_box.setChecked(kept.get("logarithmic") is True)

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for widget in (self.axis_box, self.smoothing_box, self.log_box):
            layout.addWidget(widget)
        self.metric_box.currentIndexChanged.connect(lambda _: self._remember_metric())
        for box in (self.metric_box, self.axis_box, self.smoothing_box):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.log_box.toggled.connect(lambda _: self.changed.emit())

    def _remember_metric(self) -> None:
        self._wanted = self.family


def _prepare(box: QComboBox, name: str, accessible: str, tip: str) -> QComboBox:
    box.setObjectName(name)
    box.setAccessibleName(accessible)
    box.setToolTip(verbatim(tip))
    box.setProperty("compact", True)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box


class MetricBox(ChoiceBox):
    """A box that is as wide as its present text, so that it reads like a title."""

    def __init__(self) -> None:
        super().__init__()
        self.currentTextChanged.connect(lambda _: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return room for the arrow and the text, up to `MAX_CHARACTERS`."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        text_px = min(metrics.horizontalAdvance(self.currentText()), MAX_CHARACTERS * metrics.horizontalAdvance("X"))
        kind, text = QStyle.ContentsType.CT_ComboBox, QSize(text_px, metrics.height())
        width = self.style().sizeFromContents(kind, option, text, self).width()
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the same width: the text must stay readable."""
        return QSize(self.sizeHint().width(), super().minimumSizeHint().height())
