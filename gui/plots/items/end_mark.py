"""Where training ended: a dashed line across a plot over time, with words where they have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyqtgraph as pg
from PySide6.QtCore import Qt

if TYPE_CHECKING:
    from gui.style.theme import Theme

    from .canvas import Canvas

ENDED, PAUSED = "training ended", "training paused"
HEIGHT_PX = 24
"""Kept free above the lines for the words, by plots that have them."""
DEPTH = 10


class EndMark:
    """On one canvas; hidden until it is told where."""

    def __init__(self, canvas: Canvas, *, words: bool) -> None:
        self._canvas = canvas
        self.line = pg.InfiniteLine(angle=90, movable=False)
        self.label = pg.TextItem(ENDED, anchor=(1, 0))
        self._words = words
        for item in (self.line, self.label):
            item.setZValue(DEPTH)
            item.hide()
            canvas.addItem(item, ignoreBounds=True)

    def show(self, at: float | None) -> None:
        """Mark this place of the x axis; None takes the mark back."""
        self.line.setVisible(at is not None)
        self.label.setVisible(at is not None and self._words)
        if at is not None:
            self.line.setValue(at)

    def say(self, words: str) -> None:
        """The words at the mark."""
        if words != self.label.toPlainText():
            self.label.setPlainText(words)

    def place(self) -> None:
        """Put the words at the top of what is seen: left of the line, or right of it where there is no room."""
        (left, right), (_, top) = self._canvas.view.viewRange()
        at = self.line.value()
        room = (at - left) / max(right - left, 1e-9) * self._canvas.pixels / self._canvas.devicePixelRatioF()
        fits = room > self.label.boundingRect().width()
        self.label.setAnchor((1, 0) if fits else (0, 0))
        self.label.setPos(at, top)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DashLine))
        self.label.setColor(theme.muted)
