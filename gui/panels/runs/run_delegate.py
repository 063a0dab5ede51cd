"""Paint the rows of the list of runs, with the headings of the days."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QListWidget, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from core.schema.paths import SCALING_SUFFIX
from gui.style.icons import paint_mark
from gui.style.theme import current_theme
from gui.widgets.painting import Index, draw_elided, paint_row_background, small_font

TONE = Qt.ItemDataRole.UserRole + 1
"""Item data: name of a colour of the theme."""
MARK = Qt.ItemDataRole.UserRole + 2
"""Item data: name of the mark of the state."""
DAY = Qt.ItemDataRole.UserRole + 3
"""Item data: the heading above the run; empty for all but the first run of a day."""
OF_DAY = Qt.ItemDataRole.UserRole + 4
"""Item data: the number of runs below that heading."""
ABOVE_PX = 5
"""Space above and below the two lines of a run."""


def heading_px(font: QFont) -> int:
    """Return the height of the heading of a day."""
    return round(1.9 * QFontMetrics(small_font(font)).height())


class RunDelegate(QStyledItemDelegate):
    """Paints two lines per run, cut with an ellipsis; the tooltip has the whole text."""

    def __init__(self, parent: QListWidget) -> None:
        super().__init__(parent)
        self.colours: dict[str, str] = {}
        """`#rrggbb` of ticked runs by directory; the others have the accent."""
        self.shows_boxes = False
        """Whether every run has its tick box; else the one under the mouse alone. A scaling table has none."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size of two lines, and of the heading above them."""
        title, outcome = option.fontMetrics.height(), QFontMetrics(small_font(option.font)).height()
        above = heading_px(option.font) if index.data(DAY) else 0
        return QSize(120, above + 2 * ABOVE_PX + title + outcome)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        rect = QRect(option.rect)
        title, _, outcome = str(index.data(Qt.ItemDataRole.DisplayRole)).partition("\n")
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if index.data(DAY):
            heading = QRect(rect.topLeft(), QSize(rect.width(), heading_px(option.font)))
            self._paint_heading(painter, heading, str(index.data(DAY)), str(index.data(OF_DAY)), option.font)
            rect.setTop(heading.bottom() + 1)
        body = QStyleOptionViewItem(option)
        body.rect = rect
        paint_row_background(painter, body)
        height, small = option.fontMetrics.height(), small_font(option.font)
        side = round(0.8 * height)
        square = QRectF(rect.left() + 6, rect.top() + ABOVE_PX + (height - side) / 2, side, side)
        paint_mark(painter, str(index.data(MARK)), square, getattr(current_theme(), str(index.data(TONE))))
        left, right = rect.left() + round(1.7 * height), rect.right() - 3
        state: QStyle.StateFlag = option.state
        is_run = not str(index.data(Qt.ItemDataRole.UserRole)).endswith(SCALING_SUFFIX)
        if is_run and (self.shows_boxes or state & QStyle.StateFlag.State_MouseOver):
            box = QRectF(rect.right() - side - 7, square.top(), side, side)
            right = round(box.left()) - 4
            self._paint_box(painter, box, index, ticked=bool(state & QStyle.StateFlag.State_Selected))
        line = QRect(left, rect.top() + ABOVE_PX, right - left, height)
        draw_elided(painter, line, title, current_theme().text)
        below = QRect(left, line.bottom() + 1, rect.right() - 3 - left, QFontMetrics(small).height())
        draw_elided(painter, below, outcome, current_theme().muted, font=small)
        painter.restore()

    def _paint_heading(self, painter: QPainter, line: QRect, day: str, count: str, font: QFont) -> None:
        heading = small_font(font)
        heading.setBold(True)
        heading.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 1)
        inside = line.adjusted(6, 0, -7, 0)
        draw_elided(painter, inside, count, current_theme().muted, font=small_font(font), right=True)
        room = QFontMetrics(small_font(font)).horizontalAdvance(f" {count} ")
        draw_elided(painter, inside.adjusted(0, 0, -room, 0), day.upper(), current_theme().muted, font=heading)

    def _paint_box(self, painter: QPainter, box: QRectF, index: Index, *, ticked: bool) -> None:
        colour = self.colours.get(str(index.data(Qt.ItemDataRole.UserRole)), current_theme().accent)
        painter.setPen(QPen(QColor(colour if ticked else current_theme().muted), 1))
        painter.setBrush(QColor(colour if ticked else current_theme().field))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        if ticked:
            inside = box.adjusted(0.18 * box.width(), 0.18 * box.width(), -0.18 * box.width(), -0.18 * box.width())
            paint_mark(painter, "tick", inside, current_theme().panel)
