"""A label that gives way: what does not fit is cut with an ellipsis, and the tooltip has it all."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

MIN_WIDTH_PX = 24
MIN_LETTERS = 5
"""Of a text that is cut: fewer tell nothing, and an ellipsis alone looks like a fault."""


class ElidedLabel(QLabel):
    """One line of plain text, as wide as it has room."""

    def __init__(self, text: str = "", parent: QWidget | None = None, *, min_px: int = MIN_WIDTH_PX) -> None:
        super().__init__(text, parent)
        self._min_px = min_px
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Next to nothing, unless it is given a least width: it gives way to its neighbours."""
        return QSize(min(self._min_px, super().minimumSizeHint().width()), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint what fits."""
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width())
        self.setToolTip("" if shown == self.text() else self.text())
        if shown != self.text() and len(shown) <= MIN_LETTERS:
            return
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.contentsRect(), self.alignment() | Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()
