"""The painting of a device's memory: a bar of parts, and the legend."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPixmap
from PySide6.QtWidgets import QStyleOptionViewItem

from gui.style.device_colours import faint
from gui.style.theme import Theme
from gui.viewmodels.devices.memory_bars import FREE, OTHER_RUNS, OTHERS, PARTS, THIS_RUN, UNCLAIMED, MemoryBar
from gui.widgets.painting import Index, ThemedDelegate, draw_elided, outline
from gui.widgets.table import ROW

BAR_PX, ROUND_PX, SWATCH_PX, GAP_PX, SIDE_PX = 10, 3, 9, 1, 6
PALE = 0.45
"""Share of the device's colour in the colour of other runs on it."""


class MemoryBarDelegate(ThemedDelegate):
    """Paints the bar of a row, or its text if there is no bar."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: MemoryBar = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = QRectF(option.rect).adjusted(SIDE_PX, 0, -SIDE_PX, 0)
        if row.words:
            draw_elided(painter, inside.toRect(), row.words, self._theme.muted)
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
                width = max(width, 2.0)  # make small parts visible
                painter.fillRect(QRectF(left, bar.top(), max(width - GAP_PX, 1.0), bar.height()), brush)
                left += width
        painter.strokePath(shape, outline(self._theme, self._theme.field_border))


def part_brushes(colour: str, theme: Theme) -> tuple[QBrush, ...]:
    """Return the brush of each of `PARTS` for a device of this colour."""
    brushes = [QBrush()] * len(PARTS)
    brushes[THIS_RUN] = QBrush(QColor(colour))
    brushes[OTHER_RUNS] = QBrush(QColor(faint(colour, theme, PALE)))
    brushes[OTHERS] = QBrush(QColor(theme.muted))
    brushes[UNCLAIMED] = QBrush(QColor(theme.disabled), Qt.BrushStyle.Dense4Pattern)
    brushes[FREE] = QBrush(QColor(theme.field if theme.is_dark else theme.button_hover))
    return tuple(brushes)


def swatch(brush: QBrush, border: str, scale: float) -> QPixmap:
    """Return a square of this brush for the legend; `scale`: device pixels per pixel."""
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
