"""The painting of a strategy in its box: the title, and below it a summary or the reason why it is unavailable."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.style.text_size import scaled
from gui.style.theme import current_theme
from gui.widgets.painting import Index, outline, small_font

SECOND_LINE = Qt.ItemDataRole.UserRole + 1
"""Item data: the text below the title; None for a separator."""
WIDTH_PX = 412
LEFT_PX, ABOVE_PX, GAP_PX = 10, 6, 1
TEXT_PX = WIDTH_PX - 2 * LEFT_PX - 12
"""Width of the text, less than the list by its frame."""
RULE_PX = 9
"""Height of a separator."""


class StrategyDelegate(QStyledItemDelegate):
    """Wraps the text below the title instead of cutting it: the whole reason must be readable."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._heights: dict[tuple[str, str, int], int] = {}
        """The height of a row in pixels, by font, text and width of the text."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the text."""
        text = index.data(SECOND_LINE)
        if text is None:
            return QSize(scaled(WIDTH_PX), RULE_PX)
        # Qt asks for all rows whenever one is added, and wrapping a text takes its time.
        asked = option.font.key(), str(text), scaled(TEXT_PX)
        if asked not in self._heights:
            below = QFontMetrics(small_font(option.font)).boundingRect(
                QRect(0, 0, asked[2], 10_000), Qt.TextFlag.TextWordWrap, asked[1]
            )
            self._heights[asked] = 2 * ABOVE_PX + QFontMetrics(option.font).height() + GAP_PX + below.height()
        return QSize(scaled(WIDTH_PX), self._heights[asked])

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one strategy or a separator."""
        rect, text = QRect(option.rect), index.data(SECOND_LINE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if text is None:
            painter.fillRect(
                QRect(rect.left() + LEFT_PX, rect.center().y(), rect.width() - 2 * LEFT_PX, 1),
                QColor(current_theme().field_border),
            )
        else:
            self._paint_row(painter, option, index, rect.adjusted(LEFT_PX, ABOVE_PX, -LEFT_PX, -ABOVE_PX))
        painter.restore()

    def _paint_row(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, inside: QRect) -> None:
        usable = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        if usable and option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(outline(current_theme().accent))
            painter.setBrush(QColor(current_theme().accent_soft))
            painter.drawRoundedRect(QRectF(option.rect).adjusted(1, 1, -1, -1), 5, 5)
        height = QFontMetrics(option.font).height()
        painter.setFont(option.font)
        painter.setPen(QColor(current_theme().text if usable else current_theme().muted))
        painter.drawText(QRect(inside.left(), inside.top(), inside.width(), height), 0, str(index.data()))
        painter.setFont(small_font(option.font))
        painter.setPen(QColor(current_theme().muted))
        below = QRect(inside.left(), inside.top() + height + GAP_PX, scaled(TEXT_PX), inside.height())
        painter.drawText(below, Qt.TextFlag.TextWordWrap, str(index.data(SECOND_LINE)))
