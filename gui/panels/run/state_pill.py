"""The state of the shown run: its mark and its name on a ground in its colour."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF
from PySide6.QtGui import QPainter, QPaintEvent

from core.language import tr
from gui.style.icons import paint_mark
from gui.style.theme import mark
from gui.widgets.announcement import announce
from gui.widgets.plain_text import PlainLabel

MARK_AT, ROOM = 1.2, 1.7
"""Distance of the mark from the left, and the width that it takes from the text, in widths of the mark."""


class StatePill(PlainLabel):
    """A label with a mark whose shape tells the state to those who cannot tell its colour."""

    def __init__(self) -> None:
        self._mark = ""
        super().__init__()
        self.setProperty("role", "pill")

    def show_state(self, text: str, shape: str, tone: str) -> None:
        """Show a state. `shape`: a mark of `gui.style.icons`, or the empty string; `tone`: a colour of the theme."""
        if text != self.text():
            self.setText(text)
            self.setAccessibleName(tr("State of the run: {text}", text=text))
            announce(self, self.accessibleName())
        if shape != self._mark or tone != self.property("tone"):
            self._mark = shape
            self._set_indent()
            mark(self, tone=tone)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._set_indent()

    def _set_indent(self) -> None:
        self.setIndent(round(ROOM * self._side) if self._mark else 0)

    @property
    def _side(self) -> int:
        return round(1.3 * self.fontMetrics().capHeight())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the label and its mark."""
        super().paintEvent(event)
        if self._mark:
            side = self._side
            left, top = MARK_AT * side, (self.height() - side) / 2
            painter = QPainter(self)
            colour = self.palette().color(self.foregroundRole()).name()
            paint_mark(painter, self._mark, QRectF(left, top, side, side), colour)
            painter.end()
