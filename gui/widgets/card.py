"""The ground that cards stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QPen

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

RADIUS_PX = 8.0


def paint_card(widget: QWidget, fill: str, border: str, *, below: int = 0) -> None:
    """Paint a round-cornered card over a widget, from inside its paintEvent; `below`: pixels left free."""
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(border), 1))
    painter.setBrush(QColor(fill))
    inside = QRectF(widget.rect()).adjusted(0.5, 0.5, -0.5, -0.5 - below)
    painter.drawRoundedRect(inside, RADIUS_PX, RADIUS_PX)
    painter.end()
