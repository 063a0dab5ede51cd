"""Labels beside the drawing area: the names of rows on the left, what belongs to rows or ends of lines on the right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.items.canvas import Canvas
from gui.plots.items.lines import Drawing

SQUARE_PX, GAP_PX = 8.0, 4.0
MIN_FONT_PX = 9
WIDEST = "GPU 00 +9"
"""A name for which there is always room on the right."""
MAX_NAME_PX = 120
"""Largest room for names, at a text scale of 1; in longer ones the middle is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginLabel:
    """A text beside a position of the y axis."""

    y: float
    text: str
    colour: str = ""
    """`#rrggbb` of its line or row; empty: it has no mark in a colour."""


class MarginLabels(Drawing):
    """The labels of one canvas."""

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas.getPlotItem())
        self._canvas = canvas
        self.left: tuple[MarginLabel, ...] = ()
        self.right: tuple[MarginLabel, ...] = ()
        self._spread = True
        self._names: tuple[str, ...] = ()
        self._widest = WIDEST
        self._colour = QColor()
        self.setZValue(15)
        canvas.view.sigResized.connect(self.prepareGeometryChange)

    @property
    def width_px(self) -> float:
        """The room that the labels on the right need."""
        metrics = QFontMetricsF(self._font())
        usual = metrics.horizontalAdvance(self._widest)
        needed = max((metrics.horizontalAdvance(f"{name} +9") for name in self._names), default=0.0)
        return SQUARE_PX + 2 * GAP_PX + max(usual, min(needed, scaled(MAX_NAME_PX))) + 2

    def make_room(self, names: Iterable[str], widest: str = WIDEST) -> None:
        """Make room for a text on the right, and for names that are longer than those of the devices here."""
        self._names, self._widest = tuple(names), widest

    def recolour(self) -> None:
        """Take the colours of the theme."""
        self._colour = QColor(current_theme().muted)
        self.update()

    def show_labels(self, left: Sequence[MarginLabel], right: Sequence[MarginLabel], *, spread: bool) -> None:
        """Show these labels. `spread`: those on the right that would overlap are moved apart, not left out."""
        wanted = tuple(left), tuple(right), spread
        if wanted != (self.left, self.right, self._spread):
            self.left, self.right, self._spread = wanted
            self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the whole plot."""
        return QRectF(self._canvas.getPlotItem().boundingRect())

    def draw(self, painter: QPainter) -> None:
        """Draw the labels."""
        area = self._canvas.view.geometry()
        if self.left:
            self._paint_left(painter, area)
        if self.right:
            self._paint_right(painter, area)

    def _paint_left(self, painter: QPainter, area: QRectF) -> None:
        room = area.left() - SQUARE_PX - 2 * GAP_PX
        font = self._font(area.height() / len(self.left))
        widest = max(QFontMetricsF(font).horizontalAdvance(label.text) for label in self.left)
        if widest > room:
            font.setPixelSize(max(int(font.pixelSize() * room / widest), scaled(MIN_FONT_PX)))
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        places = [self._pixel(label.y, area) for label in self.left]
        square = min(SQUARE_PX, metrics.ascent(), 0.8 * area.height() / len(self.left))
        for label, y, text_y in zip(self.left, places, keep_apart(places, 0.8 * metrics.height()), strict=True):
            painter.fillRect(QRectF(0, y - square / 2, square, square), QColor(label.colour))
            if text_y is not None:
                text = metrics.elidedText(label.text, Qt.TextElideMode.ElideMiddle, room)
                self._draw(painter, QRectF(SQUARE_PX + GAP_PX, y - 20, room + GAP_PX, 40), text)

    def _paint_right(self, painter: QPainter, area: QRectF) -> None:
        font = self._font(0.0 if self._spread else area.height() / len(self.right))
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        places = [self._pixel(label.y, area) for label in self.right]
        if self._spread:
            shown = moved_apart(places, area.top() - 4, area.bottom() + 4, 0.86 * metrics.height())
        else:
            shown = keep_apart(places, 0.8 * metrics.height())  # as on the left
        crowded = stand_for_others(places, shown) if self._spread else {}
        for number, (label, y) in enumerate(zip(self.right, shown, strict=True)):
            if y is None:
                continue
            left = area.right() + GAP_PX
            if label.colour:
                painter.fillRect(QRectF(left, y - SQUARE_PX / 2, SQUARE_PX, SQUARE_PX), QColor(label.colour))
                left += SQUARE_PX + GAP_PX
            room = self.boundingRect().right() - left
            others = f" +{crowded[number]}" if number in crowded else ""
            name_px = room - metrics.horizontalAdvance(others)
            text = f"{metrics.elidedText(label.text, Qt.TextElideMode.ElideMiddle, name_px)}{others}"
            self._draw(painter, QRectF(left, y - 20, room, 40), text)

    def _draw(self, painter: QPainter, box: QRectF, text: str) -> None:
        painter.setPen(self._colour)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)

    def _pixel(self, y: float, area: QRectF) -> float:
        bottom, top = self._canvas.y_range
        return area.top() + (top - y) / max(top - bottom, 1e-12) * area.height()

    def _font(self, row_px: float = 0.0) -> QFont:
        """Return the font of the axes, smaller where the rows are low."""
        font = QFont(self._canvas.left.style["tickFont"])
        if row_px:
            font.setPixelSize(int(max(min(row_px, font.pixelSize()), scaled(MIN_FONT_PX))))
        return font


def moved_apart(wanted: Sequence[float], top: float, bottom: float, distance: float) -> list[float | None]:
    """Return positions at least `distance` apart and near the wanted ones, inside the ends.

    Where there is not enough room for all, those nearer than `distance` to an earlier one get None instead: a label far
    from its line would be taken for that of another.
    """
    if len(wanted) * distance > bottom - top:
        return keep_apart(wanted, distance)
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    found = list(wanted)
    at = top + distance / 2
    for number in order:
        found[number] = at = max(at, found[number])
        at += distance
    limit = bottom - distance / 2
    for number in reversed(order):
        found[number] = limit = min(found[number], limit)
        limit -= distance
    return list(found)


def stand_for_others(wanted: Sequence[float], shown: Sequence[float | None]) -> Counter[int]:
    """Return for how many labels that are left out each label stands, by its number: the nearest one does."""
    kept = [number for number, place in enumerate(shown) if place is not None]
    left_out = [place for place, found in zip(wanted, shown, strict=True) if found is None]
    return Counter(min(kept, key=lambda number: abs(wanted[number] - place)) for place in left_out)


def keep_apart(wanted: Sequence[float], distance: float) -> list[float | None]:
    """Return the positions, with None for those nearer than `distance` to one kept before."""
    kept: list[float] = []
    found: list[float | None] = []
    for place in wanted:
        is_free = all(abs(place - other) >= distance for other in kept)
        found.append(place if is_free else None)
        if is_free:
            kept.append(place)
    return found
