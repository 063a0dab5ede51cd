"""The drawing area of a plot: axes, colours, mouse and keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyqtgraph as pg
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFont

from .axes import BottomAxis, LeftAxis

if TYPE_CHECKING:
    from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
    from PySide6.QtCore import QObject, QPointF
    from PySide6.QtGui import QKeyEvent

    from gui.style.theme import Theme

LEFT_AXIS_WIDTH_PX = 52  # the same in every plot, to align the time axes
RIGHT_MARGIN_PX = 20  # room for half of the last label
TOP_MARGIN_PX = 6


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph ships no types
    """A plot area that is panned and zoomed with the mouse (drag, wheel) or with the arrow keys, + and -."""

    moved_by_hand = Signal()
    follow_asked = Signal()
    """Emitted on a double click or the key A."""
    pointed = Signal(object)
    """Position of the mouse on the x axis (float); None if the mouse has left."""

    def __init__(self, *, y_by_hand: bool) -> None:
        self.bottom, self.left = BottomAxis(), LeftAxis()
        super().__init__(enableMenu=False, axisItems={"bottom": self.bottom, "left": self.left})
        self.view: pg.ViewBox = self.getPlotItem().getViewBox()
        self.view.disableAutoRange()
        self.view.setMouseEnabled(x=True, y=y_by_hand)
        self.getPlotItem().hideButtons()
        self._shape_axes()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.view.sigRangeChangedManually.connect(lambda *_: self.moved_by_hand.emit())
        self.scene().sigMouseClicked.connect(self._on_clicked)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)
        self.viewport().installEventFilter(self)

    @property
    def x_range(self) -> tuple[float, float]:
        """The visible range of the x axis."""
        (lo, hi), _ = self.view.viewRange()
        return lo, hi

    @property
    def pixels(self) -> int:
        """Width of the drawing area in device pixels."""
        return max(int(self.view.width() * self.devicePixelRatioF()), 16)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.setBackground(theme.panel)
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
        self.moved_by_hand.emit()
        self.view.setXRange(lo, hi, padding=0)

    def _shape_axes(self) -> None:
        font = QFont(self.font())
        font.setPixelSize(12)
        for axis in (self.bottom, self.left):
            axis.setTickFont(font)
            # Let labels reach beyond the axis by this much, or the first and the last would be missing.
            axis.setStyle(tickLength=0, tickTextOffset=8, hideOverlappingLabels=RIGHT_MARGIN_PX)
            axis.setZValue(-1000)  # grid lines behind the curves
            axis.enableAutoSIPrefix(False)
        self.left.setWidth(LEFT_AXIS_WIDTH_PX)
        self.left.setGrid(255)
        self.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, RIGHT_MARGIN_PX, 0)

    def _on_clicked(self, event: MouseClickEvent) -> None:
        if event.double():
            self.follow_asked.emit()

    def _on_mouse_moved(self, position: QPointF) -> None:
        inside = self.view.sceneBoundingRect().contains(position)
        self.pointed.emit(self.view.mapSceneToView(position).x() if inside else None)
