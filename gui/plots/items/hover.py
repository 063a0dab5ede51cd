"""The read-out under the mouse: a vertical line at the nearest measurement, and the values there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QWidget

from gui.base.theme import current_theme
from gui.plots.items.canvas import Canvas
from gui.widgets.layouts import Watch
from gui.widgets.plain_text import ColouredLabel, Span, named

ONE_COLUMN_UP_TO = 6
MAX_ROWS = 16
"""Rows of a column, where two columns would be higher."""
DISTANCE_PX, TOP_PX = 12, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HoverRow:
    """A name with a measured value, or only a text."""

    label: str
    value: str = ""
    colour: str | None = None
    """`#rrggbb` of its line; None if it belongs to no line."""

    @property
    def text(self) -> str:
        """Label and value as plain text."""
        return f"{self.label} {self.value}".strip()

    def name_spans(self) -> list[Span]:
        """Return a square in the colour of the line, and the label."""
        return [*self.mark_spans(), Span(self.label, current_theme().muted)]

    def mark_spans(self) -> list[Span]:
        """Return a square in the colour of the line, if it belongs to one."""
        return [Span("\u25a0 ", self.colour)] if self.colour else []

    def value_spans(self) -> list[Span]:
        """Return the value."""
        return [Span(self.value, current_theme().text)] if self.value else []

    def spans(self) -> list[Span]:
        """Return a square in the colour of the line, the label, and the value."""
        value = [Span("  "), *self.value_spans()] if self.value else []
        return [*self.name_spans(), *value]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoverReading:
    """The measurements at a position of the x axis."""

    x: float
    rows: tuple[HoverRow, ...]

    @property
    def text(self) -> str:
        """The rows as plain text, one per line."""
        return "\n".join(row.text for row in self.rows)


class HoverReadout:
    """Shows the measurements next to the mouse on one canvas, in a label that may leave the canvas."""

    def __init__(self, canvas: Canvas, reading_at: Callable[[float], HoverReading | None]) -> None:
        self._canvas = canvas
        self._reading_at = reading_at
        self._at: float | None = None
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._line.setZValue(20)
        canvas.addItem(self._line, ignoreBounds=True)
        self.label = _FloatingLabel(canvas)
        self._hide()
        canvas.pointed.connect(self.point)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        self._line.setPen(pg.mkPen(current_theme().muted, style=Qt.PenStyle.DotLine))

    def point(self, x: float | None) -> None:
        """Show the measurements at `x`; None hides them."""
        self._at = x
        self.refresh()

    def refresh(self) -> None:
        """Show the present measurements at the position of the mouse."""
        reading = None if self._at is None else self._reading_at(self._at)
        if reading is None:
            self._hide()
            return
        self._line.setValue(reading.x)
        self._line.show()
        view = self._canvas.view
        at = self._canvas.mapFromScene(view.mapViewToScene(pg.Point(reading.x, view.viewRange()[1][1]))).x()
        self.label.show_reading(reading, round(at))

    def _hide(self) -> None:
        self._line.hide()
        self.label.hide()


class _FloatingLabel(ColouredLabel):
    """A label over the window that a canvas is in, beside a position of the canvas.

    It is a child of the window: a plot would cut it off where there are more devices than the plot is high.
    """

    def __init__(self, canvas: Canvas) -> None:
        super().__init__()
        self._canvas = canvas
        named(self, "hoverReadout", role="readout")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        Watch(self, canvas, {QEvent.Type.Hide}, self.hide)

    def show_reading(self, reading: HoverReading, at: int) -> None:
        """Show a reading beside a column of the canvas, in pixels."""
        window = self._canvas.window()
        if self.parentWidget() is not window:
            self.setParent(window)
        headings = [row.spans() for row in reading.rows if not row.value]
        rows = [(row.name_spans(), row.value_spans()) for row in reading.rows if row.value]
        columns = 1 if len(rows) <= ONE_COLUMN_UP_TO else max(2, -(-len(rows) // MAX_ROWS))
        self.show_table(headings, rows, columns=columns)
        self.adjustSize()
        self._place(window, at)
        self.show()
        self.raise_()

    def _place(self, window: QWidget, at: int) -> None:
        """Put the label right of the position, or left of it if there is no room, and all of it into the window."""
        right, left = at + DISTANCE_PX, at - DISTANCE_PX - self.width()
        x = right if right + self.width() <= self._canvas.width() or left < 0 else left
        corner = self._canvas.mapTo(window, QPoint(x, TOP_PX))
        room = window.size() - self.size()
        self.move(max(0, min(corner.x(), room.width())), max(0, min(corner.y(), room.height())))


def readout_forms(rows: Sequence[HoverRow]) -> list[list[list[Span]]]:
    """Return a heading of these rows, and shorter ones: without labels, without the last rows, only the first value."""
    if not rows:
        return []
    values = [[*row.mark_spans(), *row.value_spans()] for row in rows if row.value]
    fewer = [values[:count] for count in range(len(values), 0, -1)]
    return [[row.spans() for row in rows], *fewer, *([[values[0][-1:]]] if values else [])]
