"""The drawing area of a plot: axes, colours, mouse and keyboard."""

from __future__ import annotations

from collections.abc import Iterable

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent, MouseDragEvent
from PySide6.QtCore import QEvent, QObject, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import QGraphicsSceneWheelEvent

from core.devices.device import LABEL_SEPARATOR
from gui.style.text_size import scaled
from gui.style.theme import current_theme

from .axes import BottomAxis, LeftAxis

LEFT_AXIS_WIDTH_PX, MAX_LEFT_WIDTH_PX = 52, 130  # the same in every plot, to align the time axes
MARK_PX = 18
"""Room for the mark in the colour of a device beside its name."""
RIGHT_MARGIN_PX = 20  # room for half of the last label
TOP_MARGIN_PX = 6


X, Y = 0, 1
MIN_SELECTION_PX = 5
SELECTION_ALPHA = 60
"""Opacity out of 255."""


class View(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph ships no types
    """The area between the axes.

    A drag selects a range of the x axis, and a drag with Shift or another button moves it. The wheel zooms the x axis.
    On the labels of the y axis, drag and wheel move and zoom the y axis.
    """

    moved = Signal(int)
    """The user moved or zoomed this axis, `X` or `Y`."""

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self._selection: pg.LinearRegionItem | None = None
        self.selection_colour = ""

    def wheelEvent(self, ev: QGraphicsSceneWheelEvent, axis: int | None = None) -> None:  # noqa: N802
        """Zoom one axis."""
        which = Y if axis == Y else X
        super().wheelEvent(ev, axis=which)
        if self.mouseEnabled()[which]:
            self.moved.emit(which)

    def mouseDragEvent(self, ev: MouseDragEvent, axis: int | None = None) -> None:  # noqa: N802
        """Select a range, or move one axis."""
        if axis is None and ev.button() is Qt.MouseButton.LeftButton and not _shifted(ev):
            ev.accept()
            self._select(ev)
            return
        which = Y if axis == Y else X
        super().mouseDragEvent(ev, axis=which)
        if self.mouseEnabled()[which]:
            self.moved.emit(which)

    def _select(self, ev: MouseDragEvent) -> None:
        ends = sorted(self.mapToView(point).x() for point in (ev.buttonDownPos(), ev.pos()))
        if not ev.isFinish():
            self._show_selection(ends)
            return
        if self._selection is not None:
            self._selection.hide()
        if abs(ev.pos().x() - ev.buttonDownPos().x()) >= MIN_SELECTION_PX:
            self.setXRange(*ends, padding=0)
            self.moved.emit(X)

    def _show_selection(self, ends: list[float]) -> None:
        if self._selection is None:
            self._selection = pg.LinearRegionItem(movable=False, pen=pg.mkPen(None))
            self.addItem(self._selection, ignoreBounds=True)
        colour = QColor(self.selection_colour)
        colour.setAlpha(SELECTION_ALPHA)
        self._selection.setBrush(colour)
        self._selection.setRegion(ends)
        self._selection.show()


def _shifted(ev: MouseDragEvent) -> bool:
    return bool(ev.modifiers() & Qt.KeyboardModifier.ShiftModifier)


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph ships no types
    """A plot area that is panned and zoomed with the mouse (see `View`) or with the arrow keys, + and -."""

    moved_by_hand = Signal()
    """The user has moved or zoomed the x axis."""
    y_moved_by_hand = Signal()
    """The user has moved or zoomed the y axis."""
    follow_asked = Signal()
    """Emitted on a double click or the key A."""
    pointed = Signal(object)
    """Position of the mouse on the x axis (float); None if the mouse has left."""

    def __init__(self, *, y_by_hand: bool) -> None:
        self.bottom, self.left = BottomAxis(), LeftAxis()
        self._names: tuple[str, ...] = ()
        self.view = View()
        super().__init__(viewBox=self.view, enableMenu=False, axisItems={"bottom": self.bottom, "left": self.left})
        self.view.disableAutoRange()
        self.view.setMouseEnabled(x=True, y=y_by_hand)
        self.getPlotItem().hideButtons()
        self._shape_axes()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.view.moved.connect(lambda axis: (self.y_moved_by_hand if axis == Y else self.moved_by_hand).emit())
        self.scene().sigMouseClicked.connect(self._on_clicked)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)
        self.viewport().installEventFilter(self)

    @property
    def x_range(self) -> tuple[float, float]:
        """The visible range of the x axis."""
        (lo, hi), _ = self.view.viewRange()
        return lo, hi

    @property
    def y_range(self) -> tuple[float, float]:
        """The visible range of the y axis."""
        _, (lo, hi) = self.view.viewRange()
        return lo, hi

    @property
    def pixel_size(self) -> tuple[float, float]:
        """Width and height of one logical pixel, in units of the axes."""
        (left, right), (bottom, top) = self.view.viewRange()
        return (right - left) / max(self.view.width(), 1.0), (top - bottom) / max(self.view.height(), 1.0)

    @property
    def pixels(self) -> int:
        """Width of the drawing area in device pixels."""
        return max(int(self.view.width() * self.devicePixelRatioF()), 16)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        self.setBackground(theme.panel)
        self.view.selection_colour = theme.accent
        self._set_font()
        for axis in (self.bottom, self.left):
            axis.setPen(theme.panel_border)
            axis.setTickPen(theme.grid)
            axis.setTextPen(theme.muted)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Report that the mouse has left."""
        if event.type() == QEvent.Type.Leave:
            self.pointed.emit(None)
        return bool(super().eventFilter(watched, event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Pan with the arrow keys, zoom with + and -, follow with A."""
        lo, hi = self.x_range
        step = (hi - lo) / 10
        match event.key():
            case Qt.Key.Key_A:
                self.follow_asked.emit()
            case Qt.Key.Key_Left:
                self._move_to(lo - step, hi - step)
            case Qt.Key.Key_Right:
                self._move_to(lo + step, hi + step)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self._move_to(lo + step, hi - step)
            case Qt.Key.Key_Minus:
                self._move_to(lo - step, hi + step)
            case _:
                super().keyPressEvent(event)

    def _move_to(self, lo: float, hi: float) -> None:
        self.view.setXRange(lo, hi, padding=0)
        self.moved_by_hand.emit()

    def _shape_axes(self) -> None:
        self._set_font()
        for axis in (self.bottom, self.left):
            # Let labels reach beyond the axis by this much, or the first and the last would be missing.
            axis.setStyle(tickLength=0, tickTextOffset=8, hideOverlappingLabels=RIGHT_MARGIN_PX)
            axis.setZValue(-1000)  # grid lines behind the curves
            axis.enableAutoSIPrefix(False)
        self.left.setGrid(255)
        self.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, RIGHT_MARGIN_PX, 0)

    def _set_font(self) -> None:
        """Show the labels at the size of the other texts."""
        font = QFont(self.font())
        font.setPixelSize(scaled(12))
        for axis in (self.bottom, self.left):
            axis.setTickFont(font)
        for item in self.scene().items():
            if isinstance(item, pg.TextItem):
                item.setFont(font)
        self._set_left_width()

    def make_room(self, names: Iterable[str]) -> None:
        """Make room for names of devices beside the axis, if they are those of other machines, which are longer."""
        self._names = tuple(name for name in names if LABEL_SEPARATOR in name)
        self._set_left_width()

    def _set_left_width(self) -> None:
        metrics = QFontMetricsF(self.left.style["tickFont"])
        needed = max((metrics.horizontalAdvance(name) + MARK_PX for name in self._names), default=0.0)
        usual, most = scaled(LEFT_AXIS_WIDTH_PX), scaled(MAX_LEFT_WIDTH_PX)
        self.left.setWidth(min(max(usual, int(needed)), most))

    def _on_clicked(self, event: MouseClickEvent) -> None:
        if event.double():
            self.follow_asked.emit()

    def _on_mouse_moved(self, position: QPointF) -> None:
        inside = self.view.sceneBoundingRect().contains(position)
        self.pointed.emit(self.view.mapSceneToView(position).x() if inside else None)
