"""The read-out under the mouse: a vertical line at the nearest measurement, and the values there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyqtgraph as pg
from PySide6.QtCore import Qt

from gui.widgets.plain_text import ColouredLabel, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from gui.style.theme import Theme

    from .canvas import Canvas


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

    def spans(self, theme: Theme) -> list[Span]:
        """Return a square in the colour of the line, the label, and the value."""
        mark = [Span("\u25a0 ", self.colour)] if self.colour else []
        value = [Span(f"  {self.value}", theme.text)] if self.value else []
        return [*mark, Span(self.label, theme.muted), *value]


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
    """Shows the measurements next to the mouse on one canvas."""

    def __init__(self, canvas: Canvas, reading_at: Callable[[float], HoverReading | None], theme: Theme) -> None:
        self._canvas = canvas
        self._theme = theme
        self._reading_at = reading_at
        self._at: float | None = None
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._line.setZValue(20)
        canvas.addItem(self._line, ignoreBounds=True)
        self.label = ColouredLabel(canvas)
        self.label.setProperty("role", "readout")
        self.label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._hide()
        canvas.pointed.connect(self.point)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme
        self._line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DotLine))

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
        self.label.show_groups((row.spans(self._theme) for row in reading.rows), in_lines=True)
        self.label.adjustSize()
        self._place(reading.x)
        self.label.show()

    def _hide(self) -> None:
        self._line.hide()
        self.label.hide()

    def _place(self, x: float) -> None:
        """Put the label right of the line, or left of it if there is no room."""
        view = self._canvas.view
        at = int(self._canvas.mapFromScene(view.mapViewToScene(pg.Point(x, view.viewRange()[1][1]))).x())
        fits = at + 12 + self.label.width() <= self._canvas.width()
        self.label.move(at + 12 if fits else at - 12 - self.label.width(), 6)
