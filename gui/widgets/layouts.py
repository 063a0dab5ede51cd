"""Lay out widgets in rows, columns and areas that scroll; follow what happens to a widget."""

from __future__ import annotations

from collections.abc import Callable, Collection

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QBoxLayout, QFrame, QGridLayout, QScrollArea, QWidget

Ground = QWidget | QBoxLayout
"""What a row or column is laid out on: a widget, or the end of another row or column."""
Part = QWidget | tuple[QWidget, int] | int
"""A widget, a widget with its share of the spare room, or room in pixels; 0: all the spare room."""
Margins = tuple[int, int, int, int]
"""Pixels left, above, right and below."""


def hbox(ground: Ground, *parts: Part, gap: int = 0, margins: Margins = (0, 0, 0, 0)) -> QBoxLayout:
    """Lay out widgets beside each other, `gap` pixels apart."""
    return _filled(QBoxLayout.Direction.LeftToRight, ground, parts, gap, margins)


def vbox(ground: Ground, *parts: Part, gap: int = 0, margins: Margins = (0, 0, 0, 0)) -> QBoxLayout:
    """Lay out widgets below each other, `gap` pixels apart."""
    return _filled(QBoxLayout.Direction.TopToBottom, ground, parts, gap, margins)


def _filled(
    direction: QBoxLayout.Direction, ground: Ground, parts: tuple[Part, ...], gap: int, margins: Margins
) -> QBoxLayout:
    if isinstance(ground, QWidget):
        layout = QBoxLayout(direction, ground)
    else:
        ground.addLayout(layout := QBoxLayout(direction))
    layout.setContentsMargins(*margins)
    layout.setSpacing(gap)
    for part in parts:
        if isinstance(part, QWidget):
            layout.addWidget(part)
        elif isinstance(part, tuple):
            layout.addWidget(*part)
        elif part:
            layout.addSpacing(part)
        else:
            layout.addStretch(1)
    return layout


def grid(ground: QWidget, *, gap: int = 14, line_gap: int = 3) -> QGridLayout:
    """Lay out what is added in lines and columns, without margins; the second column takes the spare room."""
    layout = QGridLayout(ground)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setHorizontalSpacing(gap)
    layout.setVerticalSpacing(line_gap)
    layout.setColumnStretch(1, 1)
    return layout


class Watch(QObject):
    """Calls a function when a widget is about to get events of these kinds, as long as the owner lives."""

    def __init__(
        self, owner: QObject, watched: QWidget, kinds: Collection[QEvent.Type], do: Callable[[], object]
    ) -> None:
        super().__init__(owner)
        self._kinds, self._do = kinds, do
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: ARG002, N802 (Qt's name)
        """Call the function, and pass the event on."""
        if event.type() in self._kinds:
            self._do()
        return False


def scroll_down(area: QScrollArea, *, by_keys: bool = False) -> None:
    """Let an area scroll its content up and down alone, without a frame. `by_keys`: also with keys."""
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if not by_keys:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
