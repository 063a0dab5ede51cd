"""The controls in the head of the plot of several runs: metric, axis, smoothing, range, scale, groups, band."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel

from core.comparison.curves import BANDS, DEVIATION, INTERVAL, MIN_MAX
from core.diagnosis.epoch_numbers import metric_title
from core.language import tr, tr_noop
from gui.plots.metrics.loss_controls import LOG_TIP, MAX_CHARACTERS, OUTLIERS_TIP, compact_box
from gui.plots.metrics.smoothing import MAX_WEIGHT, FoldingControls, SmoothingButton
from gui.widgets.compact import compact_check
from gui.widgets.forms.choice_box import SnugBox
from gui.widgets.forms.fields import select
from gui.widgets.plain_text import verbatim

AXES = {
    "step": tr_noop("by step"), "epoch": tr_noop("by epoch"), "samples": tr_noop("by samples"),
    "training": tr_noop("by training time"), "wall": tr_noop("by wall clock"),
}  # fmt: skip
"""The horizontal axes, as `core.comparison.curves` names them; the first is the default."""
BAND_TITLES = {
    MIN_MAX: tr_noop("band: min to max"), DEVIATION: tr_noop("band: ± standard deviation"),
    INTERVAL: tr_noop("band: 95 % interval"),
}  # fmt: skip
CHOICE_CHARACTERS = 22
AXIS_TIP = tr_noop("Horizontal axis. Time of training: from the first step on, without pauses")
BAND_TIP = tr_noop("What the band of runs that differ only in the seed shows. It ends where the first of them ends")
GROUP_TIP = tr_noop("Draw runs that differ only in the seed as one line: their mean, with a band")


class ComparisonControls(FoldingControls):
    """Emits `changed` when a control changes. `metric_box` is laid out by the plot, in place of the title."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._wanted = ""
        """The metric chosen last; the runs may not have it."""
        self.metric_box = compact_box(SnugBox(MAX_CHARACTERS), "comparedMetricBox", tr("Metric"), tr("Metric to draw"))
        self.metric_box.setProperty("role", "title")
        self.axis_box = compact_box(SnugBox(CHOICE_CHARACTERS), "comparedAxisBox", tr("Horizontal axis"), tr(AXIS_TIP))
        self.band_box = compact_box(SnugBox(CHOICE_CHARACTERS), "comparedBandBox", tr("Band"), tr(BAND_TIP))
        for box, titles in ((self.axis_box, AXES), (self.band_box, BAND_TITLES)):
            for name, title in titles.items():
                box.addItem(tr(title), name)
        self.smoothing_button = SmoothingButton()
        self.smoothing_button.setObjectName("comparedSmoothingButton")
        self.outliers_box = compact_check(
            "comparedOutliersBox", tr("ignore outliers"), tr(OUTLIERS_TIP), spoken=tr("Ignore outliers"), checked=True
        )
        self.log_box = compact_check("comparedLogBox", tr("log scale"), tr(LOG_TIP), spoken=tr("Logarithmic scale"))
        self.group_box = compact_check("comparedGroupBox", tr("group seeds"), tr(GROUP_TIP), checked=True)
        self.lay_out(
            (self.axis_box, self.smoothing_button),
            [(self.group_box, self.band_box), (self.log_box,), (self.outliers_box,)],
            self.smoothing_button,
        )
        self.metric_box.currentIndexChanged.connect(lambda _: self._remember_metric())
        for box in (self.metric_box, self.axis_box, self.band_box):
            box.currentIndexChanged.connect(lambda _: self.changed.emit())
        for check in (self.outliers_box, self.log_box, self.group_box):
            check.toggled.connect(lambda _: self.changed.emit())
        self.smoothing_button.changed.connect(self.changed)

    @property
    def metric_name(self) -> str:
        """The metric that is drawn; the empty string before there is one."""
        return str(self.metric_box.currentData() or "")

    @property
    def axis(self) -> str:
        """One of `AXES`."""
        return str(self.axis_box.currentData())

    @property
    def band(self) -> str:
        """One of `BANDS`."""
        return str(self.band_box.currentData())

    @property
    def smoothing(self) -> float:
        """Weight of the exponential mean, from 0 (no mean) to 0.99."""
        return self.smoothing_button.weight

    def has_other_metrics(self, metrics: Sequence[str]) -> bool:
        """Return whether these metrics are not those that are offered."""
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
        for row, name in enumerate(AXES):
            model.item(row).setEnabled(name in known)

    def show_groups(self, *, possible: bool) -> None:
        """Show the controls of groups only if there is one."""
        self.show_used(self.group_box, used=possible)
        self.show_used(self.band_box, used=possible and self.group_box.isChecked())

    def remember(self) -> dict[str, Any]:
        """Return the choices, for the settings file."""
        return {
            "x_axis": self.axis, "weight": self.smoothing, "ignore_outliers": self.outliers_box.isChecked(),
            "logarithmic": self.log_box.isChecked(), "grouped": self.group_box.isChecked(), "band": self.band,
        }  # fmt: skip

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        if kept.get("x_axis") in AXES:
            select(self.axis_box, kept["x_axis"])
        if kept.get("band") in BANDS:
            select(self.band_box, kept["band"])
        weight = kept.get("weight")
        if isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 <= weight <= MAX_WEIGHT:
            self.smoothing_button.set_weight(weight)
        self.outliers_box.setChecked(kept.get("ignore_outliers") is not False)
        self.log_box.setChecked(kept.get("logarithmic") is True)
        self.group_box.setChecked(kept.get("grouped") is not False)

    def _remember_metric(self) -> None:
        self._wanted = self.metric_name or self._wanted
