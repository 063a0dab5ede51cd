"""List the files below `outputs/` of the shown run, and read a picture among them, in the background."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QObject, QSize, Qt, Signal
from PySide6.QtGui import QImage, QImageReader

from core.runs import outputs
from core.runs.outputs import OutputFile, Outputs
from core.schema.files import read_whole
from gui.services.jobs import Jobs, keep_as_it_is

from .run_session import RunSession

PERIOD_S = 2.0
"""Seconds between two lists of a live run."""
PICTURES = {".png": b"png", ".jpg": b"jpeg", ".jpeg": b"jpeg", ".pgm": b"pgm", ".ppm": b"ppm"}
"""The formats of pictures by suffix."""
MAX_BYTES = 32 * 1024 * 1024
MAX_SIDE = 8192
PREVIEW_PX = 512
"""Larger pictures are not read; a preview is at most so wide and high."""


class OutputReader(QObject):
    """`poll` never blocks."""

    changed = Signal()
    """`outputs` are others."""
    picture_read = Signal(object, object)
    """A `Path`, and its picture as a `QImage`; None if it is none that can be shown."""

    def __init__(self, session: RunSession) -> None:
        super().__init__()
        self.outputs = Outputs()
        """The outputs of the shown run, as far as they are known."""
        self._session = session
        self._run_dir: Path | None = None
        """The run that `outputs` are of."""
        self._lists, self._pictures = Jobs(self, "outputs"), Jobs(self, "picture")
        self._is_due = True
        """Whether the list was not read since the end of the run."""
        self._listed_at = float("-inf")

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

    def read_picture(self, file: OutputFile | None) -> None:
        """Read the picture in a file, to be shown small; None for nothing any more."""
        self._pictures.drop_waiting()
        if file is not None and file.path.suffix.lower() in PICTURES and file.size_bytes <= MAX_BYTES:
            path = file.path
            self._pictures.add(
                lambda: preview(path),
                lambda image: self.picture_read.emit(path, image),
                lambda _: self.picture_read.emit(path, None),
            )

    def _take(self, run_dir: Path, found: Outputs) -> None:
        if self._session.run is not None and run_dir == self._session.run.dir:
            self._show(found)

    def _show(self, found: Outputs) -> None:
        if found != self.outputs:
            self.outputs = found
            self.changed.emit()


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
