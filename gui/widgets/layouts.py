"""Lay out widgets in rows and columns."""

from __future__ import annotations

from PySide6.QtWidgets import QBoxLayout, QWidget

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
