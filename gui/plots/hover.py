"""The read-out under the mouse: a vertical line at the nearest measurement, and what was measured there."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

if TYPE_CHECKING:
    from collections.abc import Callable

    from gui.theme import Theme

    from .canvas import Canvas


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What there is at a place of the x axis."""

    x: float
    rows: tuple[tuple[str | None, str], ...]
    """Each a colour, `#rrggbb`, of the line it belongs to (None: of no line) and its text."""

    @property
    def text(self) -> str:
        """The rows as plain text, one a line."""
        return "\n".join(text for _, text in self.rows)

    @property
    def html(self) -> str:
        """The rows as rich text, each with a square in its colour."""
        return "<br>".join(square(colour) + escape(text) for colour, text in self.rows)


class Hover:
    """Shows the reading next to the mouse, on one canvas."""

    def __init__(self, canvas: Canvas, read: Callable[[float], Reading | None]) -> None:
        self._canvas = canvas
        self._read = read
        self._at: float | None = None
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._line.setZValue(20)
        canvas.addItem(self._line, ignoreBounds=True)
        self.label = QLabel(canvas)
        self.label.setProperty("role", "readout")
        self.label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._hide()
        canvas.pointed.connect(self.point)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DotLine))

    def point(self, x: float | None) -> None:
        """Show what is at `x`; None hides it."""
        self._at = x
        self.refresh()

    def refresh(self) -> None:
        """Show it anew: there may be more to read by now."""
        reading = None if self._at is None else self._read(self._at)
        if reading is None:
            self._hide()
            return
        self._line.setValue(reading.x)
        self._line.show()
        self.label.setText(reading.html)
        self.label.adjustSize()
        self._place(reading.x)
        self.label.show()

    def _hide(self) -> None:
        self._line.hide()
        self.label.hide()

    def _place(self, x: float) -> None:
        """Right of the line, or left of it where there is no room."""
        view = self._canvas.view
        at = int(self._canvas.mapFromScene(view.mapViewToScene(pg.Point(x, view.viewRange()[1][1]))).x())
        fits = at + 12 + self.label.width() <= self._canvas.width()
        self.label.move(at + 12 if fits else at - 12 - self.label.width(), 6)


def square(colour: str | None) -> str:
    """A small square in a colour, as rich text; nothing without one."""
    return f'<span style="color:{colour}">\u25a0</span>&nbsp;' if colour else ""
