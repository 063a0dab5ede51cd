"""How a device's memory is painted: one bar, in parts side by side; the same paint in the legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPixmap
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.viewmodels.devices.memory_bars import FREE, OTHER_RUNS, OTHERS, PARTS, THIS_RUN, UNCLAIMED

if TYPE_CHECKING:
    from gui.style.theme import Theme
    from gui.viewmodels.devices.memory_bars import MemoryBar

ROW = Qt.ItemDataRole.UserRole + 1
"""Under this the model holds the `MemoryRow`."""
BAR_PX, ROUND_PX, SWATCH_PX, GAP_PX, SIDE_PX = 10, 3, 9, 1, 6
PALE = 0.45
"""Of the device's colour there is so much in that of other runs on it."""

Index = QModelIndex | QPersistentModelIndex


class MemoryBarDelegate(QStyledItemDelegate):
    """Paints the bar of a row, or the words that stand in its place."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: MemoryBar | None = index.data(ROW)
        if row is None:
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = QRectF(option.rect).adjusted(SIDE_PX, 0, -SIDE_PX, 0)
        if row.words:
            painter.setPen(QColor(self._theme.muted))
            shown = painter.fontMetrics().elidedText(row.words, Qt.TextElideMode.ElideRight, int(inside.width()))
            painter.drawText(inside, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
        else:
            inside.setTop(inside.center().y() - BAR_PX / 2)
            inside.setHeight(BAR_PX)
            self._paint_parts(painter, inside, row)
        painter.restore()

    def _paint_parts(self, painter: QPainter, bar: QRectF, row: MemoryBar) -> None:
        shape = QPainterPath()
        shape.addRoundedRect(bar, ROUND_PX, ROUND_PX)
        painter.setClipPath(shape)
        painter.fillRect(bar, QColor(part_brushes(row.colour, self._theme)[FREE].color()))
        left = bar.left()
        for share, brush in zip(row.shares[:FREE], part_brushes(row.colour, self._theme), strict=False):
            width = share * bar.width()
            if width > 0:
                width = max(width, 2.0)  # what is there is seen
                painter.fillRect(QRectF(left, bar.top(), max(width - GAP_PX, 1.0), bar.height()), brush)
                left += width


def part_brushes(colour: str, theme: Theme) -> tuple[QBrush, ...]:
    """How each of `PARTS` is painted for a device of this colour."""
    brushes = [QBrush()] * len(PARTS)
    brushes[THIS_RUN] = QBrush(QColor(colour))
    brushes[OTHER_RUNS] = QBrush(_mixed(colour, theme.panel))
    brushes[OTHERS] = QBrush(QColor(theme.muted))
    brushes[UNCLAIMED] = QBrush(QColor(theme.disabled), Qt.BrushStyle.Dense4Pattern)
    brushes[FREE] = QBrush(QColor(theme.field if theme.name == "dark" else theme.button_hover))
    return tuple(brushes)


def swatch(brush: QBrush, border: str, scale: float) -> QPixmap:
    """A square of this paint, for the legend; `scale`: pixels of the screen to one of the window."""
    side = round(SWATCH_PX * scale)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.scale(scale, scale)
    painter.fillRect(QRectF(0, 0, SWATCH_PX, SWATCH_PX), brush)
    painter.setPen(QColor(border))
    painter.drawRect(QRectF(0.5, 0.5, SWATCH_PX - 1, SWATCH_PX - 1))
    painter.end()
    pixmap.setDevicePixelRatio(scale)
    return pixmap


def _mixed(colour: str, ground: str) -> QColor:
    one, other = QColor(colour), QColor(ground)
    parts = (
        round(PALE * a + (1 - PALE) * b)
        for a, b in zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]  # a tuple of four
    )
    return QColor(*parts)
