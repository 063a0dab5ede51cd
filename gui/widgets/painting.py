"""Painting that widgets and delegates share: cards, highlighted rows, elided and small text, colours of the theme."""

from __future__ import annotations

import re

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from gui.style.text_size import scaled
from gui.style.theme import current_theme

RADIUS_PX = 8.0
SMALL_PX = 12
SEPARATOR = " · "
ELLIPSIS = "…"
HALF_NUMBER = re.compile("(?<![\\w.])[-+]?\\d[\\d.,\u2009e+-]*$")
NUMBER_ON = re.compile("[\\d.,\u2009]?[\\de]")
"""What goes on a number behind an ellipsis. Thousands are separated by thin spaces."""

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


def draw_elided(
    painter: QPainter, line: QRect, text: str, colour: str, *, font: QFont | None = None, right: bool = False,
    in_parts: bool = False,
) -> None:  # fmt: skip
    """Draw one line of text, cut as `elided` does if it is too long; `in_parts` as `elided_parts` does."""
    before = painter.font()
    if font is not None:
        painter.setFont(font)
    painter.setPen(QColor(colour))
    side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
    shown = (elided_parts if in_parts else elided)(painter.fontMetrics(), text, line.width())
    painter.drawText(line, side | Qt.AlignmentFlag.AlignVCenter, shown)
    painter.setFont(before)


def elided(metrics: QFontMetrics, text: str, width: int) -> str:
    """Return the beginning of a text that fits into `width` pixels, with an ellipsis that cuts no number."""
    return _without_half_number(metrics.elidedText(text, Qt.TextElideMode.ElideRight, width), text)


def elided_parts(metrics: QFontMetrics, text: str, width: int) -> str:
    """Return the beginning of a text that fits into `width` pixels, with an ellipsis that cuts no part before the last.

    Parts are separated by ` · `. Without this, a long last part would also take the end of the one before it.
    """
    beginning = elided(metrics, text, width)
    if beginning == text:
        return text
    whole = ""
    for part in text.split(SEPARATOR):
        longer = f"{whole}{SEPARATOR}{part}" if whole else part
        if metrics.horizontalAdvance(longer) > width:
            break
        whole = longer
    if whole and len(beginning) <= len(whole) + len(SEPARATOR) + 1:
        return whole
    return beginning


def _without_half_number(beginning: str, text: str) -> str:
    """Return the beginning of a text without a number that the ellipsis would cut: half a number is a wrong number."""
    kept = beginning.removesuffix(ELLIPSIS)
    if kept == beginning or not NUMBER_ON.match(text[len(kept) :]):
        return beginning
    return f"{HALF_NUMBER.sub('', kept).rstrip(' ,')}{ELLIPSIS}"


def small_font(font: QFont) -> QFont:
    """Return the font in the size for secondary text."""
    small = QFont(font)
    small.setPixelSize(scaled(SMALL_PX))
    return small
