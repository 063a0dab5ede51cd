"""The view of a scaling table: its progress, the table, the plot, and what a reader should know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from core.language import tr
from gui.style.text_size import scaled
from gui.style.theme import mark
from gui.widgets.context_menu import copy_entries, give_menu
from gui.widgets.dialogs.dialog import InfoDialog
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import RowsTable, text_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gui.widgets.context_menu import Entry

SIZE = QSize(900, 540)
NUMBERS = (0, 2, 3, 4, 5, 6)
"""Columns of `core.scaling.scaling_table.text_table` that are numbers."""


class ScalingTableDialog(InfoDialog):
    """Shows one table. It does not block the window, and is deleted when it is closed."""

    export_asked = Signal()
    continue_asked = Signal()
    stop_asked = Signal()
    compare_asked = Signal()
    """The curves of the runs shall be compared in the window."""
    copy_asked = Signal(str)
    """`csv` or `markdown`: the table shall be copied as such."""
    picture_asked = Signal()
    """A picture of the plot shall be saved."""
    row_chosen = Signal(int)
    """A row was double-clicked, or Enter was pressed on it: its runs shall be shown."""

    def __init__(self, parent: QWidget, *, name: str, plot: QWidget) -> None:
        self._shown: list[list[str]] = []  # first, as Qt tells about the font at once
        super().__init__(parent, name="scalingTableDialog", heading=tr("Scaling of {name}", name=name))
        self.sentence = PlainLabel()
        self.sentence.setObjectName("scalingState")
        self.sentence.setWordWrap(True)
        self.progress = QProgressBar()
        self.progress.setAccessibleName(tr("Trainings that have finished"))
        self.progress.setTextVisible(False)
        self.table = RowsTable(
            "scalingTableView", self.windowTitle(), text_columns(()), key=lambda row: row[0],
            open_keys=(Qt.Key.Key_Return, Qt.Key.Key_Enter),
        )  # fmt: skip
        self.plot = plot
        self.notices = PlainLabel()
        self.notices.setObjectName("scalingNotices")
        self.notices.setWordWrap(True)
        mark(self.notices, tone="warn")
        for part in (self.sentence, self.progress, self.table):
            self.content.addWidget(part)
        self.content.addWidget(plot, 1)
        self.content.addWidget(self.notices)
        self.export = self.add_button("exportButton", tr("Export…"), self.export_asked.emit)
        self.compare = self.add_button("compareRunsButton", tr("Compare curves"), self.compare_asked.emit)
        self.go_on = self.add_button("continueButton", tr("Continue"), self.continue_asked.emit)
        self.halt = self.add_button("haltButton", tr("Stop measuring"), self.stop_asked.emit)
        self.go_on.setToolTip(tr("Make the trainings that have not finished"))
        self.halt.setToolTip(tr("Stop the training under way, and start no other"))
        self.compare.setToolTip(tr("Draw the runs of the table in one plot, in the window"))
        self.export.setToolTip(tr("Write the table as CSV, Markdown or HTML, or its plot as PNG or SVG"))
        self.table.row_opened.connect(lambda _: self.row_chosen.emit(self.table.chosen_number()))
        export: Entry = (tr("Export…"), self.export_asked.emit)
        give_menu(self.table, "scalingTableMenu", lambda _: [*copy_entries(self.copy_asked.emit), export])
        give_menu(plot, "scalingPlotMenu", lambda _: [(tr("Save picture…"), self.picture_asked.emit), export])
        self.resize(scaled(SIZE.width()), scaled(SIZE.height()))

    def show_progress(self, sentence: str, *, done: int, total: int, is_measured: bool, is_complete: bool) -> None:
        """Say what is going on; offer to stop it or to continue."""
        self.sentence.setText(sentence)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        self.progress.setVisible(is_measured)
        self.compare.setEnabled(done > 1)
        self.halt.setVisible(is_measured)
        self.go_on.setVisible(not is_measured and not is_complete)

    def show_table(self, cells: Sequence[Sequence[str]], notices: Sequence[str]) -> None:
        """Show the table, the first row of `cells` its headings. Without any, there are no numbers yet."""
        self.export.setEnabled(bool(cells))
        self.table.setVisible(bool(cells))
        self.plot.setVisible(bool(cells))
        self.notices.setText("\n".join(notices))
        self.notices.setVisible(bool(notices))
        if not cells or [list(row) for row in cells] == self._shown:
            return
        self._shown = [list(row) for row in cells]
        headings, *rows = cells
        self.table.show_columns(text_columns(headings, NUMBERS), rows)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text, after the table has."""
        super().changeEvent(event)
        if self._shown and event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        """Give the table and the dialog the room that the cells need."""
        self.table.horizontalHeader().setStretchLastSection(False)
        self.table.resizeColumnsToContents()
        wanted = self.table.horizontalHeader().length() + self.characters(6)
        self.table.horizontalHeader().setStretchLastSection(True)
        scroll_px = self.table.horizontalScrollBar().sizeHint().height() if wanted > self.maximum_px else 0
        self.table.setFixedHeight(self.table.height_of_rows() + scroll_px)
        if self.width() < min(wanted, self.maximum_px):
            self.resize(min(wanted, self.maximum_px), self.height())

    @property
    def maximum_px(self) -> int:
        """The greatest width that the dialog takes by itself."""
        return round(0.9 * self.screen().availableGeometry().width())
