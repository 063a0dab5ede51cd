"""The base classes of items that draw themselves and ignore the mouse."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPainterPath
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget


class Drawing(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph ships no types
    """An item of a plot that draws with `draw`."""

    def draw(self, painter: QPainter) -> None:
        """Draw everything."""
        raise NotImplementedError

    def shape(self) -> QPainterPath:
        """Return an empty shape: the mouse reaches what is below."""
        return QPainterPath()

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,  # noqa: ARG002 (as Qt calls it)
        widget: QWidget | None = None,  # noqa: ARG002
    ) -> None:
        """Draw when Qt asks for it."""
        self.draw(painter)


class ViewDrawing(Drawing):
    """Takes up the whole view: to compute the exact bounds at every change would cost more than the drawing."""

    def viewTransformChanged(self) -> None:  # noqa: N802 (pyqtgraph's name)
        """Note that the visible part has changed."""
        self.prepareGeometryChange()
        super().viewTransformChanged()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the whole view."""
        return self.viewRect() or QRectF()  # no view before the item is in a plot
