"""The icons of buttons and the marks of states, drawn in the colours of the theme and sharp at any scale."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtCore import QObject, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPainterPathStroker, QPixmap
from PySide6.QtWidgets import QAbstractButton

from gui.base.text_size import scaled
from gui.base.theme import current_theme, look

SIDE_PX = 12
GAP_PX = 5  # right of the icon, because Qt leaves no space before the text
SCALE = 3  # drawn larger than shown, for screens with many dots per inch


class ButtonIcon(QObject):
    """The icon of a button. It follows the theme and the size of the text."""

    def __init__(
        self, button: QAbstractButton, name: str, tone: str = "muted", *, side: int = SIDE_PX, gap: int = 0
    ) -> None:
        """`name`, `side` and `gap`: see `glyph`. `tone`: a colour of the theme."""
        super().__init__(button)
        self._button, self._side = button, side
        self.show(name, tone, gap=gap)
        look.changed.connect(self._draw)

    def show(self, name: str, tone: str = "muted", *, gap: int = 0) -> None:
        """Show this icon, in this colour of the theme."""
        self._shown = name, tone, gap
        self._draw()

    def _draw(self) -> None:
        name, tone, gap = self._shown
        theme = current_theme()
        self._button.setIconSize(QSize(scaled(self._side + gap), scaled(self._side)))
        self._button.setIcon(glyph(name, getattr(theme, tone), theme.disabled, gap=gap, side=self._side))


def glyph(name: str, colour: str, disabled: str, *, gap: int = 0, side: int = SIDE_PX) -> QIcon:
    """Return the icon `play`, `resume`, `pause`, `stop`, `save`, `cross`, `dots`, `bell`, `warning`, `failed` or
    `machine`.

    Or an arrow: `left`, `right` or `up`.

    `gap`: pixels at its right.
    """
    icon = QIcon()
    icon.addPixmap(_pixmap(name, colour, gap, side), QIcon.Mode.Normal)
    icon.addPixmap(_pixmap(name, disabled, gap, side), QIcon.Mode.Disabled)
    return icon


def paint_mark(painter: QPainter, name: str, rect: QRectF, colour: str) -> None:
    """Paint an icon or a mark into a square: `ring`, `tick`, `cross`, `pause`, `stop`, `clock`, `alert`, `gap`,
    `eye` or `shut`.
    """
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(rect.topLeft())
    painter.scale(rect.width() / SIDE_PX, rect.height() / SIDE_PX)
    painter.fillPath(_path(name), QColor(colour))
    painter.restore()


def _pixmap(name: str, colour: str, gap: int, side: int) -> QPixmap:
    pixmap = QPixmap((side + gap) * SCALE, side * SCALE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(SCALE * side / SIDE_PX, SCALE * side / SIDE_PX)
    painter.fillPath(_path(name), QColor(colour))
    painter.end()
    pixmap.setDevicePixelRatio(SCALE)
    return pixmap


def _path(name: str) -> QPainterPath:
    """Return the area of an icon, within a square of `SIDE_PX`."""
    width, steps = _SHAPES[name]
    path = QPainterPath()
    for step, numbers in re.findall(r"([A-Z])([^A-Z]*)", steps):
        _STEPS[step](path, *map(float, numbers.split()))
    if not width:
        return path  # odd-even fill: areas drawn twice stay empty
    stroker = QPainterPathStroker()
    stroker.setWidth(width)
    stroker.setCapStyle(Qt.PenCapStyle.RoundCap)
    stroker.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return stroker.createStroke(path)


_STEPS: dict[str, Callable[..., None]] = {
    "M": QPainterPath.moveTo,
    "L": QPainterPath.lineTo,
    "C": QPainterPath.cubicTo,
    "Z": QPainterPath.closeSubpath,
    "R": QPainterPath.addRoundedRect,
    "E": QPainterPath.addEllipse,
    "B": QPainterPath.arcMoveTo,
    "A": QPainterPath.arcTo,
}
"""By letter, what adds a step to a path; it takes numbers."""
_CROSS = "M3.1 1.9 L6 4.8 L8.9 1.9 L10.1 3.1 L7.2 6 L10.1 8.9 L8.9 10.1 L6 7.2 L3.1 10.1 L1.9 8.9 L4.8 6 L1.9 3.1 Z"
_DOME = (
    "M1.4 9.2 C2.9 7.9 2.6 6.4 2.8 4.8 C3.04 3.12 3.92 2.02 5.08 1.64 A5.1 0.5 1.8 1.8 180 -180 L6.92 1.64 "
    "C8.08 2.02 8.96 3.12 9.2 4.8 C9.4 6.4 9.1 7.9 10.6 9.2 Z"
)
_SHAPES: dict[str, tuple[float, str]] = {
    "play": (0, "M2 1 L11 6 L2 11 Z"),
    "resume": (0, "R1 1.5 2.4 9 0.8 0.8 M4.8 1 L11.6 6 L4.8 11 Z"),
    "pause": (0, "R2 1.5 3 9 0.8 0.8 R7 1.5 3 9 0.8 0.8"),
    "stop": (0, "R2 2 8 8 1 1"),
    # A diskette with a cut corner.
    "save": (0, "M1 2 L2 1 L8.6 1 L11 3.4 L11 10 L10 11 L2 11 L1 10 Z R3 2.4 4.6 2.4 0.4 0.4 E4.3 6.1 3.4 3.4"),
    "cross": (0, _CROSS),
    # A circle with a gap: something goes on.
    "ring": (1.9, "B1.5 1.5 9 9 60 A1.5 1.5 9 9 60 -290"),
    "tick": (1.9, "M1.8 6.6 L4.7 9.5 L10.4 2.8"),
    "clock": (1.4, "E1.4 1.4 9.2 9.2 M6 3.4 L6 6.2 L7.9 7.2"),
    # A triangle with an exclamation mark left out.
    "alert": (0, "M6 0.8 L11.8 11 L0.2 11 Z R5.3 4.2 1.4 3.4 0.5 0.5 E5.15 8.35 1.7 1.7"),
    # A line that is broken in its middle: a connection is gone.
    "gap": (0, "R0.5 4 4 4 1 1 R7.5 4 4 4 1 1"),
    "dots": (0, "E0.7 4.7 2.6 2.6 E4.7 4.7 2.6 2.6 E8.7 4.7 2.6 2.6"),
    "bell": (0, f"{_DOME} M4.5 10.1 A4.5 8.8 3 2.7 180 180 Z"),
    "right": (1.7, "M2 6 L10 6 M6.6 2.6 L10 6 L6.6 9.4"),
    "up": (1.7, "M6 10 L6 2 M2.6 5.4 L6 2 L9.4 5.4"),
    "left": (1.7, "M10 6 L2 6 M5.4 9.4 L2 6 L5.4 2.6"),
    "warning": (0, "M6 0.8 L11.7 11 L0.3 11 Z R5.4 4.4 1.2 3.4 0 0 R5.4 8.6 1.2 1.2 0 0"),
    "failed": (0, f"E0.4 0.4 11.2 11.2 {_CROSS}"),
    "eye": (1.2, "M0.8 6 C3 2.2 9 2.2 11.2 6 C9 9.8 3 9.8 0.8 6 E4.6 4.6 2.8 2.8"),
    "shut": (1.2, "M0.8 6 C3 9.2 9 9.2 11.2 6 M2.6 8.2 L1.6 9.8 M6 8.6 L6 10.4 M9.4 8.2 L10.4 9.8"),
    # A screen on its stand.
    "machine": (1.4, "R1.2 1.6 9.6 6.8 1 1 M3.4 11 L8.6 11"),
}
"""By name, the width of the line, 0 for a filled area, and the steps of the path."""
