"""The tab Outputs: what the functions of a recipe have written."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize, Qt, Signal
from PySide6.QtGui import QImage, QImageReader, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy

from core.language import tr, tr_noop
from core.runs import outputs
from core.runs.outputs import OutputFile, Outputs
from core.schema.files import read_whole
from core.text import disk
from gui.base.formatting import moment
from gui.base.jobs import Jobs, keep_as_it_is
from gui.widgets.context_menu import Entry
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import open_path
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import STRETCH, Column, RowsTable, empty_label
from gui.window.feature import Feature

PERIOD_S = 2.0
"""Seconds between two lists of a live run."""
PICTURES = {".png": b"png", ".jpg": b"jpeg", ".jpeg": b"jpeg", ".pgm": b"pgm", ".ppm": b"ppm"}
"""The formats of pictures by suffix."""
MAX_BYTES = 32 * 1024 * 1024
MAX_SIDE = 8192
PREVIEW_PX = 512
"""Larger pictures are not read; a preview is at most so wide and high."""


def preview(path: Path) -> QImage | None:
    """Return a picture from a file, made smaller; None if it is no picture, or too large. Raises `OSError`."""
    data = QByteArray(read_whole(path, MAX_BYTES))
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer, QByteArray(PICTURES[path.suffix.lower()]))
    size = reader.size()  # from the picture's head: a small file may be a picture of gigabytes
    if not size.isValid() or max(size.width(), size.height()) > MAX_SIDE:
        return None
    if max(size.width(), size.height()) > PREVIEW_PX:
        reader.setScaledSize(size.scaled(QSize(PREVIEW_PX, PREVIEW_PX), Qt.AspectRatioMode.KeepAspectRatio))
    image = reader.read()
    return None if image.isNull() else image


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
        title, keys = tr("Files that the recipe has written"), (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        self.table = RowsTable("outputTable", title, _columns(), key=lambda file: file.path, open_keys=keys)
        self.table.offer("outputMenu", "outputs", self._entries)
        self.table.row_opened.connect(lambda file: self.open_asked.emit(file.path))
        self.table.chosen_changed.connect(self._on_selection)
        self.picture = named(PlainLabel(name="outputPicture"), spoken=tr("Preview of the picture"))
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Ignored)
        self.picture.hide()
        self.note = empty_label(tr("There are more files than these. Open the folder to see all of them."))
        self.note.hide()
        layout = hbox(self, gap=4)
        vbox(layout, (self.table, 1), self.note)
        layout.setStretch(0, 1)
        layout.addWidget(self.picture)

    def show_outputs(self, found: Outputs) -> None:
        """Show these files; the chosen one stays chosen."""
        self.table.show_rows(found.files, again=True)  # a time of yesterday has its day, too
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
        keep, smooth = Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
        fitting = self._pixmap.scaled(room.boundedTo(self._pixmap.size()), keep, smooth)
        fitting.setDevicePixelRatio(self.devicePixelRatioF())
        self.picture.setPixmap(fitting)
        self.picture.setFixedWidth(round(fitting.deviceIndependentSize().width()) + 8)

    def _entries(self) -> list[Entry]:
        file, ask = self.table.chosen(), self.open_asked.emit
        if file is None:
            return []
        return [(tr("Open"), lambda: ask(file.path)), (tr("Open folder"), lambda: ask(file.path.parent)), None]


def _columns() -> tuple[Column[OutputFile], ...]:
    return (
        Column("file", lambda row: row.name, tr("File"), tip=lambda row: row.name, width_px=STRETCH),
        Column("size_bytes", lambda row: row.size_bytes, tr("Size"), lambda row: disk(row.size_bytes), is_number=True),
        Column("modified", lambda row: _iso(row.modified), tr("Time"), lambda row: moment(row.modified, time.time()),
               is_number=True),
    )


def _iso(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).astimezone().isoformat(timespec="seconds")


NOT_OPENED = tr_noop(
    "{path} was not opened, since the run belongs to {owner}. Open it yourself if you trust that user."
)


class OutputController(Feature):
    """Files of another user's run are listed, but neither opened nor read: the desktop might execute them."""

    def set_up(self) -> None:
        self._outputs = Outputs()
        """The outputs of the shown run, as far as they are known."""
        self._run_dir: Path | None = None
        """The run that they are of."""
        self._lists, self._pictures = Jobs(self, "outputs"), Jobs(self, "picture")
        self._is_due = True
        """Whether the list was not read since the end of the run."""
        self._listed_at = float("-inf")
        self._tab = self.panels.details.outputs
        self._tab.chosen.connect(self._read_picture)
        self._tab.open_asked.connect(self._open)

    def poll(self) -> None:
        """Read the list again while the run is live, and once after its end."""
        run_dir = self._session.run.dir if self._session.run is not None else None
        if run_dir != self._run_dir:
            self._run_dir, self._is_due, self._listed_at = run_dir, True, float("-inf")
            self._show(Outputs())
        live = self._session.live
        if run_dir is not None and (time.monotonic() - self._listed_at >= PERIOD_S if live else self._is_due):
            where = run_dir
            if self._lists.start(lambda: outputs.listed(where), lambda found: self._take(where, found), keep_as_it_is):
                self._is_due, self._listed_at = live, time.monotonic()

    def _take(self, run_dir: Path, found: Outputs) -> None:
        if self._session.run is not None and run_dir == self._session.run.dir:
            self._show(found)

    def _show(self, found: Outputs) -> None:
        if found != self._outputs:
            self._outputs = found
            self.panels.details.show_outputs(found)

    @property
    def _owner(self) -> str:
        """The other user to whom the shown run belongs; the empty string for one's own."""
        return (self._session.run.owner or "") if self._session.run is not None else ""

    def _read_picture(self, file: OutputFile | None) -> None:
        """Read the picture in a file, to be shown small; None for nothing any more."""
        self._pictures.drop_waiting()
        is_shown = file is not None and file.path.suffix.lower() in PICTURES and file.size_bytes <= MAX_BYTES
        if file is not None and is_shown and not self._owner:
            path = file.path
            self._pictures.add(
                lambda: preview(path),
                lambda image: self._tab.show_picture(path, image),
                lambda _: self._tab.show_picture(path, None),
            )

    def _open(self, path: Path) -> None:
        if self._owner:
            self._message.show_message(tr(NOT_OPENED, path=path, owner=self._owner), "warn")
        else:
            open_path(path, self._message)
