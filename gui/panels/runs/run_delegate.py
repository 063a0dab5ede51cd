"""The painting of a run in the list: a dot in the colour of its state, title and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.widgets.painting import Index, draw_elided, paint_row_background, small_font

if TYPE_CHECKING:
    from gui.style.theme import Theme

TONE = Qt.ItemDataRole.UserRole + 1
"""Item data: name of a colour of the theme."""
HEIGHT_PX, LINE_PX, TEXT_PX, DOT_PX = 42, 17, 22, 9


class RunDelegate(QStyledItemDelegate):
    """Paints two lines per run, cut with an ellipsis; the tooltip has the whole text."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the same size for all rows."""
        return QSize(120, HEIGHT_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        rect: QRect = option.rect
        title, _, outcome = str(index.data(Qt.ItemDataRole.DisplayRole)).partition("\n")
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option, self._theme)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(getattr(self._theme, str(index.data(TONE)))))
        painter.drawEllipse(QPointF(rect.left() + 11, rect.top() + 5 + LINE_PX / 2), DOT_PX / 2, DOT_PX / 2)
        line = QRect(rect.left() + TEXT_PX, rect.top() + 5, rect.width() - TEXT_PX - 4, LINE_PX)
        draw_elided(painter, line, title, self._theme.text)
        below = line.translated(0, LINE_PX - 1)
        draw_elided(painter, below, outcome, self._theme.muted, font=small_font(painter.font()))
        painter.restore()
