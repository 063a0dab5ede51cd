"""The signs on the buttons, drawn in a theme's colours: sharp at any scale, and of no font."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPixmap, QPolygonF

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE_PX = 12
GAP_PX = 5  # right of the sign: Qt puts the text straight beside an icon
SCALE = 3  # drawn larger than shown: sharp on dense screens too


def glyph(name: str, colour: str, disabled: str, *, gap: int = 0) -> QIcon:
    """The icon `play`, `pause`, `stop` or `cross`; `gap`: room at its right."""
    icon = QIcon()
    icon.addPixmap(_pixmap(name, colour, gap), QIcon.Mode.Normal)
    icon.addPixmap(_pixmap(name, disabled, gap), QIcon.Mode.Disabled)
    return icon


def _pixmap(name: str, colour: str, gap: int) -> QPixmap:
    pixmap = QPixmap((SIDE_PX + gap) * SCALE, SIDE_PX * SCALE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(SCALE, SCALE)
    painter.fillPath(_PATHS[name](), QColor(colour))
    painter.end()
    pixmap.setDevicePixelRatio(SCALE)
    return pixmap


def _play() -> QPainterPath:
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(2, 1), QPointF(11, 6), QPointF(2, 11)]))
    return path


def _pause() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(2, 1.5, 3, 9), 0.8, 0.8)
    path.addRoundedRect(QRectF(7, 1.5, 3, 9), 0.8, 0.8)
    return path


def _stop() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(2, 2, 8, 8), 1, 1)
    return path


def _cross() -> QPainterPath:
    path = QPainterPath()
    for slope in (1, -1):
        ends = (QPointF(2.5, 6 - 3.5 * slope), QPointF(9.5, 6 + 3.5 * slope))
        shift = QPointF(0.6 * slope, -0.6)
        path.addPolygon(QPolygonF([ends[0] + shift, ends[1] + shift, ends[1] - shift, ends[0] - shift]))
    path.setFillRule(Qt.FillRule.WindingFill)
    return path


_PATHS: dict[str, Callable[[], QPainterPath]] = {"play": _play, "pause": _pause, "stop": _stop, "cross": _cross}
