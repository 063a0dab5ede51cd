"""How a strategy is painted in the list of its box: its title, and below what it does or why it cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

if TYPE_CHECKING:
    from gui.style.theme import Theme

SECOND_LINE = Qt.ItemDataRole.UserRole + 1
"""Under this the model holds the text below the title; a line between items has none."""
WIDTH_PX = 412
LEFT_PX, ABOVE_PX, GAP_PX = 10, 6, 1
TEXT_PX = WIDTH_PX - 2 * LEFT_PX - 12
"""The text is as wide as it was measured, less than the list by its frame."""
SMALL_PX = 12
RULE_PX = 9
"""The height of a line between items."""

Index = QModelIndex | QPersistentModelIndex


class StrategyDelegate(QStyledItemDelegate):
    """The text below the title is wrapped, not cut: a reason must be read to its end."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """As high as its text."""
        text = index.data(SECOND_LINE)
        if text is None:
            return QSize(WIDTH_PX, RULE_PX)
        below = QFontMetrics(_small(option.font)).boundingRect(
            QRect(0, 0, TEXT_PX, 1000), Qt.TextFlag.TextWordWrap, str(text)
        )
        return QSize(WIDTH_PX, 2 * ABOVE_PX + QFontMetrics(option.font).height() + GAP_PX + below.height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one strategy, or a line."""
        rect, text = QRect(option.rect), index.data(SECOND_LINE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if text is None:
            painter.fillRect(QRect(rect.left() + LEFT_PX, rect.center().y(), rect.width() - 2 * LEFT_PX, 1), self._rule)
        else:
            self._paint_row(painter, option, index, rect.adjusted(LEFT_PX, ABOVE_PX, -LEFT_PX, -ABOVE_PX))
        painter.restore()

    def _paint_row(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, inside: QRect) -> None:
        usable = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        if usable and option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._theme.accent_soft))
            painter.drawRoundedRect(QRectF(option.rect).adjusted(1, 1, -1, -1), 5, 5)
        height = QFontMetrics(option.font).height()
        painter.setFont(option.font)
        painter.setPen(QColor(self._theme.text if usable else self._theme.muted))
        painter.drawText(QRect(inside.left(), inside.top(), inside.width(), height), 0, str(index.data()))
        painter.setFont(_small(option.font))
        painter.setPen(QColor(self._theme.muted))
        below = QRect(inside.left(), inside.top() + height + GAP_PX, TEXT_PX, inside.height())
        painter.drawText(below, Qt.TextFlag.TextWordWrap, str(index.data(SECOND_LINE)))

    @property
    def _rule(self) -> QColor:
        return QColor(self._theme.field_border)


def _small(font: QFont) -> QFont:
    made = QFont(font)
    made.setPixelSize(SMALL_PX)
    return made
