"""Labels that give way: one cuts its text with an ellipsis and has all of it as tooltip, one stays blank."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.style.text_size import scaled
from gui.widgets.plain_text import ColouredLabel, PlainLabel, verbatim

MIN_WIDTH_PX = 24
MIN_LETTERS = 5
"""Minimum letters of a cut text; with fewer the label stays blank."""


class ElidedLabel(PlainLabel):
    """One line of plain text that shrinks below its text width."""

    def __init__(self, text: str = "", parent: QWidget | None = None, *, min_px: int = MIN_WIDTH_PX) -> None:
        super().__init__(text, parent)
        self._min_px = min_px
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return at most `min_px`, so that the label gives way to its neighbours."""
        return QSize(min(scaled(self._min_px), super().minimumSizeHint().width()), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the text that fits."""
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width())
        self.setToolTip("" if shown == self.text() else verbatim(self.text()))
        if shown != self.text() and len(shown) <= MIN_LETTERS:
            return
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.contentsRect(), self.alignment() | Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()


class ReadoutLabel(ColouredLabel):
    """A label that never widens its card. If it lacks room it is blank: half a number is a wrong number."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the whole text or nothing."""
        if self.sizeHint().width() <= self.width():
            super().paintEvent(event)
