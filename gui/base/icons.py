"""The icons of buttons and the marks of states, drawn in the colours of the theme and sharp at any scale."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPainterPathStroker, QPixmap, QPolygonF, QTransform
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
    """Paint an icon or a mark into a square: `ring`, `tick`, `cross`, `pause`, `stop`, `clock`, `alert` or `gap`."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(rect.topLeft())
    painter.scale(rect.width() / SIDE_PX, rect.height() / SIDE_PX)
    painter.fillPath(_PATHS[name](), QColor(colour))
    painter.restore()


def _pixmap(name: str, colour: str, gap: int, side: int) -> QPixmap:
    pixmap = QPixmap((side + gap) * SCALE, side * SCALE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(SCALE * side / SIDE_PX, SCALE * side / SIDE_PX)
    painter.fillPath(_PATHS[name](), QColor(colour))
    painter.end()
    pixmap.setDevicePixelRatio(SCALE)
    return pixmap


def _play() -> QPainterPath:
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(2, 1), QPointF(11, 6), QPointF(2, 11)]))
    return path


def _resume() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(1, 1.5, 2.4, 9), 0.8, 0.8)
    path.addPolygon(QPolygonF([QPointF(4.8, 1), QPointF(11.6, 6), QPointF(4.8, 11)]))
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


def _stroke(path: QPainterPath, width: float) -> QPainterPath:
    stroker = QPainterPathStroker()
    stroker.setWidth(width)
    stroker.setCapStyle(Qt.PenCapStyle.RoundCap)
    stroker.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return stroker.createStroke(path)


def _ring() -> QPainterPath:
    """Return a circle with a gap: something goes on."""
    path, circle = QPainterPath(), QRectF(1.5, 1.5, 9, 9)
    path.arcMoveTo(circle, 60)
    path.arcTo(circle, 60, -290)
    return _stroke(path, 1.9)


def _gap() -> QPainterPath:
    """Return a line that is broken in its middle: a connection is gone."""
    path = QPainterPath()
    path.addRoundedRect(QRectF(0.5, 4, 4, 4), 1, 1)
    path.addRoundedRect(QRectF(7.5, 4, 4, 4), 1, 1)
    return path


def _tick() -> QPainterPath:
    path = QPainterPath(QPointF(1.8, 6.6))
    path.lineTo(4.7, 9.5)
    path.lineTo(10.4, 2.8)
    return _stroke(path, 1.9)


def _clock() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(6, 6), 4.6, 4.6)
    path.moveTo(6, 3.4)
    path.lineTo(6, 6.2)
    path.lineTo(7.9, 7.2)
    return _stroke(path, 1.4)


def _alert() -> QPainterPath:
    """Return a triangle with an exclamation mark left out."""
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(6, 0.8), QPointF(11.8, 11), QPointF(0.2, 11), QPointF(6, 0.8)]))
    path.addRoundedRect(QRectF(5.3, 4.2, 1.4, 3.4), 0.5, 0.5)
    path.addEllipse(QPointF(6, 9.2), 0.85, 0.85)
    return path


def _save() -> QPainterPath:
    """Return a diskette with a cut corner."""
    path = QPainterPath()
    corners = ((1, 2), (2, 1), (8.6, 1), (11, 3.4), (11, 10), (10, 11), (2, 11), (1, 10))
    path.addPolygon(QPolygonF([QPointF(x, y) for x, y in corners]))
    path.addRoundedRect(QRectF(3, 2.4, 4.6, 2.4), 0.4, 0.4)
    path.addEllipse(QPointF(6, 7.8), 1.7, 1.7)
    return path  # odd-even fill: areas drawn twice stay empty


def _dots() -> QPainterPath:
    path = QPainterPath()
    for x in (2, 6, 10):
        path.addEllipse(QPointF(x, 6), 1.3, 1.3)
    return path


def _arrow(turn: float) -> QPainterPath:
    """Return an arrow to the right, turned by so many degrees clockwise."""
    path = QPainterPath(QPointF(2, 6))
    path.lineTo(10, 6)
    path.moveTo(6.6, 2.6)
    path.lineTo(10, 6)
    path.lineTo(6.6, 9.4)
    centre = QTransform().translate(6, 6).rotate(turn).translate(-6, -6)
    return centre.map(_stroke(path, 1.7)).simplified()


def _warning() -> QPainterPath:
    """Return a triangle with an exclamation mark."""
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(6, 0.8), QPointF(11.7, 11), QPointF(0.3, 11)]))
    path.addRect(QRectF(5.4, 4.4, 1.2, 3.4))
    path.addRect(QRectF(5.4, 8.6, 1.2, 1.2))
    return path  # odd-even fill: areas drawn twice stay empty


def _failed() -> QPainterPath:
    """Return a disc with a cross."""
    disc = QPainterPath()
    disc.addEllipse(QPointF(6, 6), 5.6, 5.6)
    return disc.subtracted(_cross())


def _bell() -> QPainterPath:
    path = QPainterPath(QPointF(1.4, 9.2))
    path.cubicTo(QPointF(2.9, 7.9), QPointF(2.6, 6.4), QPointF(2.8, 4.8))
    path.cubicTo(QPointF(3.1, 2.7), QPointF(4.4, 1.5), QPointF(6, 1.5))
    path.cubicTo(QPointF(7.6, 1.5), QPointF(8.9, 2.7), QPointF(9.2, 4.8))
    path.cubicTo(QPointF(9.4, 6.4), QPointF(9.1, 7.9), QPointF(10.6, 9.2))
    path.closeSubpath()
    clapper = QPainterPath(QPointF(4.5, 10.1))
    clapper.arcTo(QRectF(4.5, 8.8, 3, 2.7), 180, 180)
    clapper.closeSubpath()
    knob = QPainterPath()
    knob.addEllipse(QPointF(6, 1.4), 0.9, 0.9)
    return path.united(knob).united(clapper)


def _machine() -> QPainterPath:
    """Return a screen on its stand."""
    screen, stand = QPainterPath(), QPainterPath(QPointF(3.4, 11))
    screen.addRoundedRect(QRectF(1.2, 1.6, 9.6, 6.8), 1, 1)
    stand.lineTo(8.6, 11)
    return _stroke(screen, 1.4).united(_stroke(stand, 1.4))


_PATHS: dict[str, Callable[[], QPainterPath]] = {
    "play": _play,
    "resume": _resume,
    "pause": _pause,
    "stop": _stop,
    "save": _save,
    "cross": _cross,
    "ring": _ring,
    "tick": _tick,
    "clock": _clock,
    "alert": _alert,
    "gap": _gap,
    "dots": _dots,
    "bell": _bell,
    "right": partial(_arrow, 0.0),
    "up": partial(_arrow, -90.0),
    "left": partial(_arrow, 180.0),
    "warning": _warning,
    "failed": _failed,
    "machine": _machine,
}
