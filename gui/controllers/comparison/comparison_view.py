"""The view of several runs, in the place of the plots: their curves, their table, the readings of their devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QPushButton, QSplitter, QVBoxLayout, QWidget

from core.language import tr
from gui.panels.comparison.differences_card import DifferencesCard
from gui.plots.comparison.compared_plot import ComparedPlot
from gui.plots.comparison.compared_readings import ComparedReadingsPlot
from gui.plots.comparison.comparison_plot import ComparisonPlot
from gui.style.icons import ButtonIcon
from gui.viewmodels.comparison.compared import Entry as Compared
from gui.widgets.compact import compact_button
from gui.widgets.context_menu import give_menu

if TYPE_CHECKING:
    from gui.widgets.context_menu import Entry

BETWEEN_PX = 8
CROSS_PX, GAP_PX = 10, 4
SHARES = (40, 38, 22)
"""Shares of the height: curves, table, devices."""


class ComparisonView(QWidget):
    """Its plots show the same horizontal range, and one cursor."""

    left = Signal()
    """The user goes back to the run or to this machine."""
    picture_asked = Signal(QWidget)
    """A plot of which a picture shall be saved."""
    values_asked = Signal()
    """The values that the plot of the metric shows shall be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("comparisonView")
        self.setAccessibleName(tr("Comparison"))
        self.plot = ComparisonPlot(name="comparisonPlot", title=tr("Comparison"))
        self.card = DifferencesCard()
        self.utilisation = ComparedReadingsPlot(
            name="comparedUtilisationPlot", title=tr("Utilisation"), unit="%", top=100.0,
            readings=lambda run: run.utilisation,
        )  # fmt: skip
        self.memory = ComparedReadingsPlot(
            name="comparedMemoryPlot", title=tr("Memory"), unit="GB", readings=lambda run: run.memory
        )
        self.utilisation.title.setToolTip(tr("The mean of the devices of each run"))
        self.memory.title.setToolTip(tr("The fullest of the devices of each run"))
        self.count = 0
        """The number of runs that are compared."""
        self.plots: tuple[ComparedPlot, ...] = (self.plot, self.utilisation, self.memory)
        self.close_button = self._close_button()
        self.plot.header.addWidget(self.close_button)
        self._link()
        self._lay_out()

    def show_entries(
        self, entries: Sequence[Compared], *, axis_name: str, origin: float, metric: str, version: int
    ) -> None:
        """Draw these entries from the next `redraw` on."""
        for plot in self.plots:
            plot.show_entries(entries, axis_name=axis_name, origin=origin, metric=metric, version=version)

    def clear(self) -> None:
        """Forget all runs: they take much memory."""
        for plot in self.plots:
            plot.clear()

    def show_count(self, count: int) -> None:
        """Show that so many runs are compared."""
        self.count = count
        self.close_button.setText(tr("Comparing {count}", count=count))

    def _close_button(self) -> QPushButton:
        button = compact_button(
            "closeComparisonButton", "", tr("End the comparison and untick the runs (Esc)"), role="flat"
        )
        ButtonIcon(button, "cross", side=CROSS_PX, gap=GAP_PX)
        button.clicked.connect(self.left)
        return button

    def _link(self) -> None:
        for plot in self.plots:
            # Not `setXLink`, which moves the ranges of plots that are side by side.
            plot.canvas.view.sigXRangeChanged.connect(lambda _, span, plot=plot: self._show_span(plot, span))
            plot.follow_changed.connect(lambda follow, plot=plot: self._follow(plot, follow))
            plot.canvas.pointed.connect(lambda x, plot=plot: self._point(plot, x))
            give_menu(plot, "comparedPlotMenu", partial(self._menu_entries, plot))

    def _show_span(self, origin: ComparedPlot, span: tuple[float, float]) -> None:
        for plot in self.plots:
            if plot is not origin and plot.canvas.x_range != tuple(span):
                plot.canvas.view.setXRange(*span, padding=0)

    def _follow(self, origin: ComparedPlot, follow: bool) -> None:
        for plot in self.plots:
            if plot is not origin:
                plot.set_follow(follow)

    def _point(self, origin: ComparedPlot, x: float | None) -> None:
        for plot in self.plots:
            plot.show_crosshair(x if plot is not origin else None)

    def _menu_entries(self, plot: ComparedPlot, _place: QPoint) -> list[Entry]:
        entries: list[Entry] = [(tr("Save picture…"), lambda: self.picture_asked.emit(plot))]
        if plot is self.plot:
            entries.insert(0, (tr("Copy values"), self.values_asked.emit))
        entries += [None, *self.card.export_entries()]
        return entries if plot.shows_all else [*entries, None, (tr("Show all"), lambda: plot.set_follow(True))]

    def _lay_out(self) -> None:
        devices = QSplitter(Qt.Orientation.Horizontal)
        parts = QSplitter(Qt.Orientation.Vertical)
        for splitter, widgets in ((devices, (self.utilisation, self.memory)), (parts, (self.plot, self.card, devices))):
            splitter.setChildrenCollapsible(False)
            splitter.setHandleWidth(BETWEEN_PX)
            for widget in widgets:
                splitter.addWidget(widget)
        for place, share in enumerate(SHARES):
            parts.setStretchFactor(place, share)
        parts.setSizes([10 * share for share in SHARES])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(parts)
