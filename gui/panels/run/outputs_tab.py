"""The tab Outputs: the files that functions of the recipe have written, and a preview of a picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFrame, QHeaderView, QSizePolicy, QTableWidget

from core.language import tr
from core.runs.outputs import OutputFile, Outputs
from gui.viewmodels.run.output_rows import COLUMNS, output_table, output_texts
from gui.widgets.context_menu import give_menu, table_entries
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, verbatim
from gui.widgets.table import cell, empty_label, plain_table, text_item

if TYPE_CHECKING:
    from gui.widgets.context_menu import Entry

NAME, SIZE, TIME = range(3)
MAX_PREVIEW_SHARE = 0.4
"""Largest part of the width that a preview takes."""


class OutputsTab(QFrame):
    """A table of the files, newest first, and at its right the picture in the chosen file."""

    open_asked = Signal(object)
    """A `Path` of a file or a folder."""
    chosen = Signal(object)
    """The chosen `OutputFile`, or None."""
    table_asked = Signal(str, object)
    """The table is to be copied or saved: `markdown`, `csv` or `file`, and its `TableText`."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("outputsTab")
        self._files: tuple[OutputFile, ...] = ()
        self._pixmap = QPixmap()
        self.table = _Table(self)
        plain_table(
            self.table, "outputTable", tr("Files that the recipe has written"), [*map(tr, COLUMNS)], (SIZE, TIME)
        )
        self.table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        give_menu(self.table, "outputMenu", self._entries)
        self.table.doubleClicked.connect(lambda _: self.open_chosen())
        self.table.itemSelectionChanged.connect(self._on_selection)
        self.picture = PlainLabel(name="outputPicture")
        self.picture.setAccessibleName(tr("Preview of the picture"))
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Ignored)
        self.picture.hide()
        self.note = empty_label()
        self.note.hide()
        self._lay_out()

    def show_outputs(self, found: Outputs) -> None:
        """Show these files; the chosen one stays chosen."""
        before = self.chosen_file()
        self._files = found.files
        now = time.time()
        self.table.blockSignals(True)
        self.table.setRowCount(len(found.files))
        for row, file in enumerate(found.files):
            for column, text in enumerate(output_texts(file, now)):
                if self.table.item(row, column) is None:
                    self.table.setItem(row, column, text_item(right=column != NAME))
                cell(self.table, row, column).setText(text)
            cell(self.table, row, NAME).setToolTip(verbatim(file.name))
        paths = [file.path for file in found.files]
        if before is not None and before.path in paths:
            self.table.selectRow(paths.index(before.path))
        else:
            self.table.clearSelection()
        self.table.blockSignals(False)
        if self.chosen_file() != before:
            self._on_selection()
        self.note.setText(
            "" if found.is_complete else tr("There are more files than these. Open the folder to see all of them.")
        )
        self.note.setVisible(not found.is_complete)

    def chosen_file(self) -> OutputFile | None:
        """Return the file that is selected."""
        rows = self.table.selectionModel().selectedRows()
        return self._files[rows[0].row()] if rows and rows[0].row() < len(self._files) else None

    def open_chosen(self) -> None:
        """Ask to open the selected file."""
        file = self.chosen_file()
        if file is not None:
            self.open_asked.emit(file.path)

    def show_picture(self, path: Path, image: QImage | None) -> None:
        """Show a picture, if its file is still the selected one."""
        file = self.chosen_file()
        if file is not None and file.path == path:
            self._pixmap = QPixmap() if image is None else QPixmap.fromImage(image)
            self._fit_picture()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Fit the picture into its place."""
        super().resizeEvent(event)
        self._fit_picture()

    def _on_selection(self) -> None:
        self._pixmap = QPixmap()
        self._fit_picture()
        self.chosen.emit(self.chosen_file())

    def _fit_picture(self) -> None:
        self.picture.setVisible(not self._pixmap.isNull())
        if self._pixmap.isNull():
            self.picture.clear()
            return
        room = QSize(round(self.width() * MAX_PREVIEW_SHARE), self.height()) * self.devicePixelRatioF()
        fitting = self._pixmap.scaled(
            room.boundedTo(self._pixmap.size()),
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        fitting.setDevicePixelRatio(self.devicePixelRatioF())
        self.picture.setPixmap(fitting)
        self.picture.setFixedWidth(round(fitting.deviceIndependentSize().width()) + 8)

    def _entries(self, _: QPoint) -> list[Entry]:
        file = self.chosen_file()
        of_file: list[Entry] = [] if file is None else [
            (tr("Open"), self.open_chosen), (tr("Open folder"), lambda: self.open_asked.emit(file.path.parent)), None,
        ]  # fmt: skip
        return [*of_file, *table_entries(self._ask_for_table)]

    def _ask_for_table(self, form: str) -> None:
        self.table_asked.emit(form, output_table(self._files, time.time()))

    def _lay_out(self) -> None:
        layout = hbox(self, gap=4)
        vbox(layout, (self.table, 1), self.note)
        layout.setStretch(0, 1)
        layout.addWidget(self.picture)


class _Table(QTableWidget):
    """Opens the selected file on Enter."""

    def __init__(self, tab: OutputsTab) -> None:
        super().__init__()
        self._tab = tab

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the selected file on Enter."""
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self._tab.open_chosen()
        else:
            super().keyPressEvent(event)
