"""The tab Outputs: the files that functions of the recipe have written, and a preview of a picture."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy

from core.language import tr
from core.runs.outputs import OutputFile, Outputs
from core.text import disk
from gui.style.formatting import moment
from gui.widgets.context_menu import Entry
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import STRETCH, Column, RowsTable, empty_label

MAX_PREVIEW_SHARE = 0.4
"""Largest part of the width that a preview takes."""


class OutputsTab(QFrame):
    """A table of the files, newest first, and at its right the picture in the chosen file."""

    open_asked = Signal(object)
    """A `Path` of a file or a folder."""
    chosen = Signal(object)
    """The chosen `OutputFile`, or None."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("outputsTab")
        self._pixmap = QPixmap()
        self.table = RowsTable(
            "outputTable", tr("Files that the recipe has written"), _columns(), key=lambda file: file.path,
            open_keys=(Qt.Key.Key_Return, Qt.Key.Key_Enter),
        )  # fmt: skip
        self.table.offer("outputMenu", "outputs", self._entries)
        self.table.row_opened.connect(lambda file: self.open_asked.emit(file.path))
        self.table.chosen_changed.connect(self._on_selection)
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
        self.table.show_rows(found.files, again=True)  # a time of yesterday has its day, too
        self.note.setText(
            "" if found.is_complete else tr("There are more files than these. Open the folder to see all of them.")
        )
        self.note.setVisible(not found.is_complete)

    def show_picture(self, path: Path, image: QImage | None) -> None:
        """Show a picture, if its file is still the selected one."""
        file = self.table.chosen()
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
        self.chosen.emit(self.table.chosen())

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

    def _entries(self) -> list[Entry]:
        file = self.table.chosen()
        return [] if file is None else [
            (tr("Open"), lambda: self.open_asked.emit(file.path)),
            (tr("Open folder"), lambda: self.open_asked.emit(file.path.parent)), None,
        ]  # fmt: skip

    def _lay_out(self) -> None:
        layout = hbox(self, gap=4)
        vbox(layout, (self.table, 1), self.note)
        layout.setStretch(0, 1)
        layout.addWidget(self.picture)


def _columns() -> tuple[Column[OutputFile], ...]:
    return (
        Column("file", lambda row: row.name, tr("File"), tip=lambda row: row.name, width_px=STRETCH),
        Column("size_bytes", lambda row: row.size_bytes, tr("Size"), lambda row: disk(row.size_bytes), is_number=True),
        Column("modified", lambda row: _iso(row.modified), tr("Time"), lambda row: moment(row.modified, time.time()),
               is_number=True),
    )  # fmt: skip


def _iso(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).astimezone().isoformat(timespec="seconds")
