"""The mark at the end of training: a dashed vertical line, with a label if there is room."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import Qt

from core.language import tr, tr_noop
from gui.style.text_size import scaled
from gui.style.theme import current_theme

from .canvas import Canvas

ENDED, PAUSED = tr_noop("training ended"), tr_noop("training paused")
HEIGHT_PX = 24
"""Height to keep free above the lines in plots with a label, at a scale of 1."""
LOW = 2
"""In a plot lower than this many times that height the label is left out."""
DEPTH = 10


class EndMark:
    """A mark on one canvas; hidden until `show` gets a position."""

    def __init__(self, canvas: Canvas, *, labelled: bool) -> None:
        self._canvas = canvas
        self.line = pg.InfiniteLine(angle=90, movable=False)
        self.label = pg.TextItem(tr(ENDED), anchor=(1, 0))
        self._labelled = labelled
        for item in (self.line, self.label):
            item.setZValue(DEPTH)
            item.hide()
            canvas.addItem(item, ignoreBounds=True)

    def show(self, at: float | None) -> None:
        """Mark this position of the x axis; None hides the mark."""
        self.line.setVisible(at is not None)
        self.label.setVisible(at is not None and self._labelled)
        if at is not None:
            self.line.setValue(at)

    @property
    def room_px(self) -> int:
        """Height to keep free above the lines for the label; 0 in a plot that is too low for it."""
        room_px = scaled(HEIGHT_PX)
        return room_px if self._labelled and self._canvas.view.height() >= LOW * room_px else 0

    def set_text(self, text: str) -> None:
        """Set the label of the mark."""
        if text != self.label.toPlainText():
            self.label.setPlainText(text)

    def place(self) -> None:
        """Put the label at the top of the view: left of the line, or right of it if there is no room."""
        (left, right), (_, top) = self._canvas.view.viewRange()
        at = self.line.value()
        room = (at - left) / max(right - left, 1e-9) * self._canvas.pixels / self._canvas.devicePixelRatioF()
        fits = room > self.label.boundingRect().width()
        self.label.setAnchor((1, 0) if fits else (0, 0))
        self.label.setPos(at, top)
        self.label.setVisible(self.line.isVisible() and self.room_px > 0)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        self.line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DashLine))
        self.label.setColor(theme.muted)
