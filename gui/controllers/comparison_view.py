"""The view of several runs, in the place of the plots: their curves, their table, the readings of their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton, QSplitter, QVBoxLayout, QWidget

from core.language import tr
from gui.panels.comparison.differences_card import DifferencesCard
from gui.plots.compared_readings import ComparedReadingsPlot
from gui.plots.comparison import ComparisonPlot
from gui.style.icons import glyph, icon_size
from gui.widgets.compact import compact_button

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtCore import QPoint

    from gui.plots.compared import ComparedPlot
    from gui.style.theme import Theme
    from gui.viewmodels.compared import Entry

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

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("comparisonView")
        self.setAccessibleName(tr("Comparison"))
        self.plot = ComparisonPlot(name="comparisonPlot", title=tr("Comparison"), theme=theme)
        self.card = DifferencesCard(theme)
        self.utilisation = ComparedReadingsPlot(
            name="comparedUtilisationPlot", title=tr("Utilisation"), unit="%", theme=theme, top=100.0,
            readings=lambda run: run.utilisation,
        )  # fmt: skip
        self.memory = ComparedReadingsPlot(
            name="comparedMemoryPlot", title=tr("Memory"), unit="GB", theme=theme, readings=lambda run: run.memory
        )
        self.utilisation.title.setToolTip(tr("The mean of the devices of each run"))
        self.memory.title.setToolTip(tr("The fullest of the devices of each run"))
        self.plots: tuple[ComparedPlot, ...] = (self.plot, self.utilisation, self.memory)
        self.close_button = self._close_button(theme)
        self.plot.header.addWidget(self.close_button)
        self._link()
        self._lay_out()

    def show_entries(
        self, entries: Sequence[Entry], *, axis_name: str, origin: float, metric: str, version: int
    ) -> None:
        """Draw these entries from the next `redraw` on."""
        for plot in self.plots:
            plot.show_entries(entries, axis_name=axis_name, origin=origin, metric=metric, version=version)

    def show_count(self, count: int) -> None:
        """Show that so many runs are compared."""
        self.close_button.setText(tr("Comparing {count}", count=count))

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        for plot in self.plots:
            plot.set_theme(theme)
        self.card.set_theme(theme)
        self.close_button.setIcon(glyph("cross", theme.muted, theme.disabled, gap=GAP_PX))

    def _close_button(self, theme: Theme) -> QPushButton:
        button = compact_button(
            "closeComparisonButton", "", tr("End the comparison and untick the runs (Esc)"), role="flat"
        )
        button.setIconSize(icon_size(side=CROSS_PX, gap=GAP_PX))
        button.setIcon(glyph("cross", theme.muted, theme.disabled, gap=GAP_PX))
        button.clicked.connect(self.left)
        return button

    def _link(self) -> None:
        for plot in self.plots:
            # Not `setXLink`, which moves the ranges of plots that are side by side.
            plot.canvas.view.sigXRangeChanged.connect(lambda _, span, plot=plot: self._show_span(plot, span))
            plot.follow_changed.connect(lambda follow, plot=plot: self._follow(plot, follow))
            plot.canvas.pointed.connect(lambda x, plot=plot: self._point(plot, x))
            plot.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            plot.customContextMenuRequested.connect(lambda at, plot=plot: self._open_menu(plot, at))

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

    def _open_menu(self, plot: ComparedPlot, at: QPoint) -> None:
        menu = QMenu(plot)
        menu.setObjectName("comparedPlotMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        picture, everything = QAction(tr("Save picture…"), menu), QAction(tr("Show all"), menu)
        picture.triggered.connect(lambda _: self.picture_asked.emit(plot))
        everything.triggered.connect(lambda _: plot.set_follow(True))
        everything.setEnabled(not plot.shows_all)
        menu.addActions([picture, everything])
        menu.popup(plot.mapToGlobal(at))

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
