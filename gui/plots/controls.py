"""The controls in the heads of plots of metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QFrame, QSlider, QToolButton, QWidget

from core.diagnosis.timeline import metric_title
from core.language import tr, tr_noop
from core.series.min_max_tree import Floats
from core.text import capital
from gui.widgets.buttons import compact_check
from gui.widgets.fields import SnugBox, select
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named, verbatim

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
        weight = self.weight
        self.setText(tr("smooth {weight:.2g}", weight=weight) if weight else tr("not smoothed"))
        self.setAccessibleName(tr("Smoothing: {weight:.2g}", weight=weight) if weight else tr("Smoothing: none"))


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
        self.column = vbox(self, self.slider, explanation, gap=8, margins=(14, 12, 14, 12))
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
        self._row = hbox(self, *always, *self._groups(len(folding)), 0, gap=4)

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


MAX_CHARACTERS = 10
"""Maximum characters of a metric's name to reserve room for."""
OUTLIERS_TIP = tr_noop(
    "Fit the vertical axis to the values between the 1st and the 99th percentile of what is shown. "
    "Arrows mark values outside"
)
LOG_TIP = tr_noop("Logarithmic scale; values at or below zero are not drawn")


class MetricControls(FoldingControls):
    """Emits `changed` when a control changes. `metric_box` is laid out by the plot, in place of the title."""

    changed = Signal()

    def __init__(self, axis_box: QComboBox, axes: Mapping[str, str], prefix: str = "") -> None:
        """`axes`: titles by name; `prefix`: begins the object names of all controls but `axis_box`."""
        super().__init__()

        def name(own: str) -> str:
            return f"{prefix}{capital(own)}" if prefix else own

        self._wanted = ""
        """The metric chosen last; the runs may not have it."""
        self.metric_box = compact_box(SnugBox(MAX_CHARACTERS), name("metricBox"), tr("Metric"), tr("Metric to draw"))
        self.metric_box.setProperty("role", "title")
        self.axis_box = axis_box
        for axis, title in axes.items():
            axis_box.addItem(tr(title), axis)
        self.smoothing_button = named(SmoothingButton(), name("smoothingButton"))
        self.outliers_box = compact_check(
            name("outliersBox"), tr("ignore outliers"), tr(OUTLIERS_TIP), spoken=tr("Ignore outliers"), checked=True
        )
        self.log_box = compact_check(name("logBox"), tr("log scale"), tr(LOG_TIP), spoken=tr("Logarithmic scale"))
        self.metric_box.currentIndexChanged.connect(lambda _: self._remember_metric())
        for box in (self.metric_box, axis_box):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        for check in (self.outliers_box, self.log_box):
            check.toggled.connect(lambda _: self.changed.emit())
        self.smoothing_button.changed.connect(self.changed)

    @property
    def metric_name(self) -> str:
        """The metric that is drawn, such as `loss`; the empty string before there is one."""
        return str(self.metric_box.currentData() or "")

    @property
    def axis(self) -> str:
        """The name of the chosen axis."""
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

    def heights_of(self, values: Floats) -> Floats:
        """Return the heights of values, shape (n,); NaN for what a logarithmic scale does not show."""
        return np.log10(np.where(values > 0, values, np.nan)) if self.logarithmic else values

    def has_other_metrics(self, metrics: list[str]) -> bool:
        """Return whether there are metrics, and they are not those that are offered."""
        return bool(metrics) and metrics != [self.metric_box.itemData(row) for row in range(self.metric_box.count())]

    def offer_metrics(self, metrics: Sequence[str], usual: str) -> None:
        """Offer these metrics. The one chosen last is selected again if it is among them, else `usual`."""
        before = self.metric_name
        self.metric_box.blockSignals(True)
        self.metric_box.clear()
        for name in metrics:
            self.metric_box.addItem(metric_title(name).upper(), name)
            self.metric_box.setItemData(self.metric_box.count() - 1, verbatim(name), Qt.ItemDataRole.ToolTipRole)
        wanted = self._wanted if self._wanted in metrics else usual
        self.metric_box.setCurrentIndex(max(self.metric_box.findData(wanted), 0) if metrics else -1)
        self.metric_box.blockSignals(False)
        self.metric_box.updateGeometry()
        if before != self.metric_name:
            self.changed.emit()

    def offer_axes(self, known: Collection[str]) -> None:
        """Enable the axes that a run knows; an earlier choice stays."""
        model: QStandardItemModel = self.axis_box.model()  # type: ignore[assignment]  # the default model of a QComboBox
        for row in range(self.axis_box.count()):
            model.item(row).setEnabled(self.axis_box.itemData(row) in known)

    def remember(self) -> dict[str, Any]:
        """Return the choices but the metric, for the settings file."""
        scale = {"ignore_outliers": self.ignores_outliers, "logarithmic": self.logarithmic}
        return {"x_axis": self.axis, "weight": self.smoothing, **scale}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        if isinstance(kept.get("x_axis"), str):
            select(self.axis_box, kept["x_axis"])
        weight = kept.get("weight")
        if isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 <= weight <= MAX_WEIGHT:
            self.smoothing_button.set_weight(weight)
        self.outliers_box.setChecked(kept.get("ignore_outliers") is not False)
        self.log_box.setChecked(kept.get("logarithmic") is True)

    def _remember_metric(self) -> None:
        self._wanted = self.metric_name or self._wanted


def compact_box(box: QComboBox, name: str, accessible: str, tip: str) -> QComboBox:
    """Set up a box for the heading of a plot, and return it."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return named(box, name, accessible, tip, compact=True)
