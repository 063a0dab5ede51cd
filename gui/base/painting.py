"""Painting that widgets and delegates share: cards, highlighted rows, elided and small text, colours of the theme."""

from __future__ import annotations

import re

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QStyle, QStyleOptionViewItem, QWidget

from gui.base.text_size import scaled
from gui.base.theme import current_theme

RADIUS_PX = 8.0
SMALL_PX = 12
ELLIPSIS = "…"
ON_THE_LEFT, ON_THE_RIGHT = (int(side | Qt.AlignmentFlag.AlignVCenter)
                             for side in (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight))
LAST_NUMBER = re.compile("(?<![\\w.])[-+]?\\d[\\d.,\u2009e+-]*$")
"""Thousands are separated by thin spaces."""

Index = QModelIndex | QPersistentModelIndex


def paint_card(widget: QWidget, fill: str, border: str) -> None:
    """Paint a round-cornered card over a widget, from inside its paintEvent."""
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(border), 1))
    painter.setBrush(QColor(fill))
    inside = QRectF(widget.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
    painter.drawRoundedRect(inside, RADIUS_PX, RADIUS_PX)
    painter.end()


def paint_row_background(painter: QPainter, option: QStyleOptionViewItem) -> None:
    """Paint the background of a row that is selected or under the mouse, and a frame if it has the focus."""
    theme = current_theme()
    state: QStyle.StateFlag = option.state
    rect = QRectF(option.rect)
    selected = state & QStyle.StateFlag.State_Selected
    if selected or state & QStyle.StateFlag.State_MouseOver:
        painter.setPen(outline(theme.field_border))
        painter.setBrush(QColor(theme.accent_soft if selected else theme.button))
        painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 6, 6)
    if state & QStyle.StateFlag.State_HasFocus:
        painter.setPen(QPen(QColor(theme.accent), 2 if theme.is_strong else 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(1.5, 1.5, -1.5, -1.5), 6, 6)


def outline(colour: str) -> QPen:
    """Return the pen for the outline of a ground: none, but for strong contrast one in this colour."""
    return QPen(QColor(colour), 1) if current_theme().is_strong else QPen(Qt.PenStyle.NoPen)


def paint_empty(view: QAbstractScrollArea, words: str, side: int, above: int) -> None:
    """Paint a text in the viewport of an empty list, so far from its edges."""
    painter = QPainter(view.viewport())
    painter.setPen(current_theme().muted)
    area = QRect(view.viewport().rect()).adjusted(side, above, -side, -above)
    painter.drawText(area, Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignTop, words)
    painter.end()


def draw_elided(
    painter: QPainter, line: QRect, text: str, colour: str, *, font: QFont | None = None, right: bool = False
) -> None:
    """Draw one line of text, cut as `elided` does if it is too long."""
    before = painter.font()
    if font is not None:
        painter.setFont(font)
    painter.setPen(QColor(colour))
    shown = elided(painter.fontMetrics(), text, line.width())
    painter.drawText(line, ON_THE_RIGHT if right else ON_THE_LEFT, shown)
    painter.setFont(before)


def elided(metrics: QFontMetrics, text: str, width: int) -> str:
    """Return the beginning of a text that fits into `width` pixels, with an ellipsis for the rest.

    It never ends with a number, which may be half of one: half a number is a wrong number. A text that is all number
    so far, such as a name that begins with a date, is cut as it is.
    """
    fits = metrics.horizontalAdvance(text) <= width  # takes half as long as to cut it
    shown = text if fits else metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
    if shown == text:
        return text
    words = LAST_NUMBER.sub("", shown.removesuffix(ELLIPSIS)).rstrip(" ,·")
    return f"{words}{ELLIPSIS}" if words else shown


def small_font(font: QFont) -> QFont:
    """Return the font in the size for secondary text."""
    small = QFont(font)
    small.setPixelSize(scaled(SMALL_PX))
    return small
