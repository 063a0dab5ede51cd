"""How a run is painted in the list: a dot in its state's colour, its title, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

if TYPE_CHECKING:
    from gui.style.theme import Theme

TONE = Qt.ItemDataRole.UserRole + 1
"""Under this the model holds a role of the theme."""
HEIGHT_PX, LINE_PX, TEXT_PX, DOT_PX = 42, 17, 22, 9

Index = QModelIndex | QPersistentModelIndex


class RunDelegate(QStyledItemDelegate):
    """Two lines; what does not fit is cut with an ellipsis, and the tooltip has it all."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """The same for all rows."""
        return QSize(120, HEIGHT_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        rect: QRect = option.rect
        title, _, outcome = str(index.data(Qt.ItemDataRole.DisplayRole)).partition("\n")
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter, option, rect)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(getattr(self._theme, str(index.data(TONE)))))
        painter.drawEllipse(QPointF(rect.left() + 11, rect.top() + 5 + LINE_PX / 2), DOT_PX / 2, DOT_PX / 2)
        line = QRect(rect.left() + TEXT_PX, rect.top() + 5, rect.width() - TEXT_PX - 4, LINE_PX)
        self._write(painter, line, title, self._theme.text)
        font = QFont(painter.font())
        font.setPixelSize(12)
        painter.setFont(font)
        self._write(painter, line.translated(0, LINE_PX - 1), outcome, self._theme.muted)
        painter.restore()

    def _paint_ground(self, painter: QPainter, option: QStyleOptionViewItem, rect: QRect) -> None:
        state: QStyle.StateFlag = option.state
        chosen = state & QStyle.StateFlag.State_Selected
        if chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._theme.accent_soft if chosen else self._theme.button))
            painter.drawRoundedRect(QRectF(rect).adjusted(1, 1, -1, -1), 6, 6)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(self._theme.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(rect).adjusted(1.5, 1.5, -1.5, -1.5), 6, 6)

    def _write(self, painter: QPainter, line: QRect, text: str, colour: str) -> None:
        painter.setPen(QColor(colour))
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
