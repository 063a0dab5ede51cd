"""The controls in the head of the loss plot: metric, x axis, smoothing, range and scale of the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QListView

from core.diagnosis.epoch_numbers import metric_title
from core.language import tr, tr_noop
from gui.widgets.compact import compact_check
from gui.widgets.forms.choice_box import ChoiceBox, SnugBox
from gui.widgets.forms.fields import select
from gui.widgets.plain_text import verbatim

from .smoothing import MAX_WEIGHT, FoldingControls, SmoothingButton

MAX_CHARACTERS = 10
"""Maximum characters of a metric's name to reserve room for."""
AXES = {"step": tr_noop("by step"), "training": tr_noop("by time"), "epoch": tr_noop("by epoch")}
"""The x axes that can be chosen, as `RunSeries.axes` names them; the first is the default."""

AXIS_TIP = tr_noop("Horizontal axis. By time: time of training from the first step on, without pauses")
OUTLIERS_TIP = tr_noop(
    "Fit the vertical axis to the values between the 1st and the 99th percentile of what is shown. "
    "Arrows mark values outside"
)
LOG_TIP = tr_noop("Logarithmic scale; values at or below zero are not drawn")


class LossControls(FoldingControls):
    """Emits `changed` when a control changes. `metric_box` is laid out by the plot, in place of the title.

    Where there is no room for the check boxes, they are with the slider that the smoothing button opens.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._wanted = "loss"
        """The metric chosen last; the shown run may not have it."""
        self.metric_box = compact_box(SnugBox(MAX_CHARACTERS), "metricBox", tr("Metric"), tr("Metric to draw"))
        self.metric_box.setProperty("role", "title")
        self.offer_families(["loss"])
        self.axis_box = compact_box(ChoiceBox(), "xAxisBox", tr("Horizontal axis"), tr(AXIS_TIP))
        for name, title in AXES.items():
            self.axis_box.addItem(tr(title), name)
        self.smoothing_button = SmoothingButton()
        self.outliers_box = compact_check(
            "outliersBox", tr("ignore outliers"), tr(OUTLIERS_TIP), spoken=tr("Ignore outliers"), checked=True
        )
        self.log_box = compact_check("logBox", tr("log scale"), tr(LOG_TIP), spoken=tr("Logarithmic scale"))
        self.lay_out((self.axis_box, self.smoothing_button), [(self.outliers_box, self.log_box)], self.smoothing_button)
        self._connect()

    @property
    def family(self) -> str:
        """The metric whose training and validation values are drawn, such as `loss`."""
        return str(self.metric_box.currentData())

    @property
    def axis(self) -> str:
        """`step`, `training` or `epoch`."""
        return str(self.axis_box.currentData())

    @property
    def smoothing(self) -> float:
        """Weight of the exponential mean that the bold line shows, from 0 (no mean) to 0.99."""
        return self.smoothing_button.weight

    @property
    def ignores_outliers(self) -> bool:
        """True if single values far from the others may lie outside the plot."""
        return self.outliers_box.isChecked()

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
            self.metric_box.addItem(metric_title(family).upper(), family)
            self.metric_box.setItemData(self.metric_box.count() - 1, verbatim(family), Qt.ItemDataRole.ToolTipRole)
        self.metric_box.setCurrentIndex(max(self.metric_box.findData(self._wanted), 0))
        self.metric_box.blockSignals(False)
        self.metric_box.setVisible(families != ["loss"])
        if before not in {None, self.family}:
            self.changed.emit()

    def offer_epochs(self, known: bool) -> None:
        """Enable the epoch axis if the steps per epoch are known; an earlier choice stays."""
        model: QStandardItemModel = self.axis_box.model()  # type: ignore[assignment]  # the default model of a QComboBox
        model.item(list(AXES).index("epoch")).setEnabled(known)

    def show_unit(self, unit: str) -> None:
        """Name the axis of steps after what they count, `step` or `epoch`; epochs need no axis of their own then."""
        title = tr(AXES[unit])
        if title != self.axis_box.itemText(0):
            self.axis_box.setItemText(0, title)
            rows: QListView = self.axis_box.view()  # type: ignore[assignment]  # the default view of a QComboBox
            rows.setRowHidden(list(AXES).index("epoch"), unit == "epoch")

    def remember(self) -> dict[str, Any]:
        """Return axis, smoothing, range and scale, for the settings file."""
        return {
            "x_axis": self.axis, "weight": self.smoothing, "ignore_outliers": self.ignores_outliers,
            "logarithmic": self.logarithmic,
        }  # fmt: skip

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        axis = kept.get("x_axis")
        if isinstance(axis, str):
            select(self.axis_box, axis)
        weight = kept.get("weight")
        if isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 <= weight <= MAX_WEIGHT:
            self.smoothing_button.set_weight(weight)
        self.outliers_box.setChecked(kept.get("ignore_outliers") is not False)
        self.log_box.setChecked(kept.get("logarithmic") is True)

    def _connect(self) -> None:
        self.metric_box.currentIndexChanged.connect(lambda _: self._remember_metric())
        for box in (self.metric_box, self.axis_box):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        for check_box in (self.outliers_box, self.log_box):
            check_box.toggled.connect(lambda _: self.changed.emit())
        self.smoothing_button.changed.connect(self.changed)

    def _remember_metric(self) -> None:
        self._wanted = self.family


def compact_box(box: QComboBox, name: str, accessible: str, tip: str) -> QComboBox:
    """Set up a box for the heading of a plot, and return it."""
    box.setObjectName(name)
    box.setAccessibleName(accessible)
    box.setToolTip(verbatim(tip))
    box.setProperty("compact", True)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box
